package admin

import (
	"context"
	"log/slog"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/replica"
)

// Sessions knows the leader's sessions with agents.
type Sessions interface {
	// InSession reports whether a node's agent is in session here; leading: this coordinator leads, so it can know.
	InSession(node string) (inSession, leading bool)
	// RenewsThroughPeers reports whether a node that is not in session renews its leases through other nodes.
	RenewsThroughPeers(node string) bool
}

// Config configures a Service.
type Config struct {
	Replica *replica.Replica
	// Activity returns the leader's data about one node, or about all nodes if the name is empty; nothing if the leader
	// cannot be asked.
	Activity func(ctx context.Context, node string) map[string]*v1.NodeActivity
	// Liveness returns a function that looks up the state of a coordinator in gossip by id.
	Liveness func() func(id string) string
	Sessions Sessions
	// Agents holds connections to the agents, by address.
	Agents Agents
	Log    *slog.Logger
}

// Service implements QuotaService, LauncherService and, except for the methods about jobs, ClusterService.
type Service struct {
	v1.UnimplementedQuotaServiceServer
	v1.UnimplementedLauncherServiceServer

	replica  *replica.Replica
	activity func(ctx context.Context, node string) map[string]*v1.NodeActivity
	liveness func() func(id string) string
	sessions Sessions
	agents   Agents
	log      *slog.Logger
	// asked has the newest answer of ListCoordinators.
	asked shared
}

// New makes a service.
func New(c Config) *Service {
	return &Service{
		replica: c.Replica, activity: c.Activity, liveness: c.Liveness, sessions: c.Sessions, agents: c.Agents, log: c.Log,
	}
}
