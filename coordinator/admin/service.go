package admin

import (
	"context"
	"log/slog"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/replica"
)

// Sessions say what the leader knows of the agents.
type Sessions interface {
	// InSession says whether a node's agent is in session here; leading: this coordinator leads, and can know.
	InSession(node string) (inSession, leading bool)
	// RenewsThroughPeers says whether renewals of a node that is not in session come through other nodes.
	RenewsThroughPeers(node string) bool
}

// Config is what a Service needs.
type Config struct {
	Replica *replica.Replica
	// Activity is what the leader knows of one node, or of all nodes when the name is empty; nothing when it cannot be asked.
	Activity func(ctx context.Context, node string) map[string]*v1.NodeActivity
	// Liveness looks up how gossip sees the coordinators, by id.
	Liveness func() func(id string) string
	Sessions Sessions
	Log      *slog.Logger
}

// Service answers QuotaService, LauncherService and, except for what concerns jobs, ClusterService.
type Service struct {
	v1.UnimplementedQuotaServiceServer
	v1.UnimplementedLauncherServiceServer

	replica  *replica.Replica
	activity func(ctx context.Context, node string) map[string]*v1.NodeActivity
	liveness func() func(id string) string
	sessions Sessions
	log      *slog.Logger
}

// New makes a service.
func New(c Config) *Service {
	return &Service{
		replica: c.Replica, activity: c.Activity, liveness: c.Liveness, sessions: c.Sessions, log: c.Log,
	}
}
