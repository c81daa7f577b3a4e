package scenario

import (
	"context"
	"time"

	"github.com/mindcoordinator/mind/chaos/scenario/users"
)

// Executions kills the leader again and again while executions of a flow run jobs, rest and ask. Each step must happen once, and all
// executions must complete.
func Executions(rounds int, flows users.Flows, load Load) Attack {
	attack := KillLeader(rounds, load)
	attack.Name = "executions"
	attack.Around = func(ctx context.Context, f *Fight) (func(context.Context) error, error) {
		runs, err := users.NewRuns(ctx, f.REST, f.fleet.Run, f.Scratch, flows)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if err := runs.Start(ctx); err != nil {
			return nil, err
		}
		f.Log("%d executions run, started in %.1f s", flows.Executions, time.Since(began).Seconds())
		f.ends.Go(func() { runs.Answer(ctx) })
		return func(ctx context.Context) error {
			left, err := runs.Live(ctx)
			if err != nil {
				return err
			}
			f.note("%d of %d executions were under way after the last fault", left, flows.Executions)
			return runs.Judge(ctx, f.result)
		}, nil
	}
	return attack
}
