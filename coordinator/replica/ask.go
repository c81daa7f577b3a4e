package replica

import (
	"context"
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// AskAll asks coordinators at the same time, and waits until all have answered, or for a while: one that is dead does not answer at
// all. ask gets the position of the coordinator in the list; it is not called for one whose address is not known.
func (r *Replica) AskAll(ctx context.Context, within time.Duration, ids []string, ask func(ctx context.Context, i int, asked v1.OperatorServiceClient)) {
	ctx, cancel := context.WithTimeout(r.AsReplica(ctx), within)
	defer cancel()
	var calls sync.WaitGroup
	for i, id := range ids {
		addr := r.GRPCAddr(id)
		if addr == "" {
			continue
		}
		conn, err := r.Link(addr)
		if err != nil {
			continue
		}
		calls.Go(func() { ask(ctx, i, v1.NewOperatorServiceClient(conn)) })
	}
	calls.Wait()
}
