package access

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mindcoordinator/mind/api/denials"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
)

// InWords replaces the names of states in a text by the names that users see.
type InWords func(v *fsm.View, text string) string

// Config configures a Service.
type Config struct {
	Replica *replica.Replica
	InWords InWords
	// DenialsEvery is how often denials are recorded.
	DenialsEvery time.Duration
	// AuditRecords is the number of records of each kind that the cluster keeps while this coordinator leads; 0:
	// unchanged.
	AuditRecords int
	Log          *slog.Logger
}

// Service implements TokenService, SessionService and AuditService.
type Service struct {
	v1.UnimplementedTokenServiceServer
	v1.UnimplementedSessionServiceServer
	v1.UnimplementedAuditServiceServer

	replica      *replica.Replica
	inWords      InWords
	denialsEvery time.Duration
	auditRecords int
	log          *slog.Logger

	denied denials.Tally
	// term is nil while this coordinator does not lead.
	term atomic.Pointer[term]
}

// New makes a service without denials.
func New(c Config) *Service {
	return &Service{replica: c.Replica, inWords: c.InWords, denialsEvery: c.DenialsEvery, auditRecords: c.AuditRecords, log: c.Log}
}
