package members

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/coordinators"
)

// Config configures a Service.
type Config struct {
	Replica *replica.Replica
	// Self is this coordinator's entry for the others.
	Self coordinators.Coordinator
	// Listed are the initial voters. They are used while the state does not have their addresses.
	Listed []coordinators.Coordinator
	// JoinVia returns gRPC addresses through which this coordinator joins a cluster of which it is no member.
	JoinVia func() []string
	// Liveness returns a function that looks up the state of a coordinator in gossip by id.
	Liveness func() func(id string) string
	// TLS: coordinators show certificates, and speak for themselves only.
	TLS bool
	// LeaderWait bounds how long a transfer of leadership waits for the new leader to be known.
	LeaderWait time.Duration
	// Changing is held while a coordinator is added, and while the feature level is raised.
	Changing sync.Locker
	Log      *slog.Logger
}

// Service implements the methods of OperatorService about members and leadership.
type Service struct {
	replica    *replica.Replica
	self       coordinators.Coordinator
	listed     []coordinators.Coordinator
	joinVia    func() []string
	liveness   func() func(id string) string
	tls        bool
	leaderWait time.Duration
	changing   sync.Locker
	log        *slog.Logger

	// term is nil while this coordinator does not lead.
	term atomic.Pointer[term]
}

// New makes a service.
func New(c Config) *Service {
	return &Service{
		replica: c.Replica, self: c.Self, listed: c.Listed, joinVia: c.JoinVia, liveness: c.Liveness, tls: c.TLS,
		leaderWait: c.LeaderWait, changing: c.Changing, log: c.Log,
	}
}
