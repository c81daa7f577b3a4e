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

// InWords replaces the names of states by those that users see.
type InWords func(v *fsm.View, text string) string

// Config is what a Service needs.
type Config struct {
	Replica *replica.Replica
	InWords InWords
	// DenialsEvery is how often denials are recorded.
	DenialsEvery time.Duration
	// AuditRecords is how many of each kind the cluster keeps while this coordinator leads; 0: unchanged.
	AuditRecords int
	Log          *slog.Logger
}

// Service answers TokenService and AuditService.
type Service struct {
	v1.UnimplementedTokenServiceServer
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
