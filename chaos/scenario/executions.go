package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/chaos/scenario/users"
)

// Executions kills the leader again and again while executions of a flow run jobs, rest and ask. Each step must happen once, and all
// executions must complete.
func Executions(rounds int, flows users.Flows, load Load) Attack {
	var runs *users.Runs
	var live []int // executions that are under way, at each fault
	attack := KillLeader(rounds, load)
	kill := attack.Fault
	attack.Name = "executions"
	attack.Around = func(ctx context.Context, f *Fight) (_ func(context.Context) error, err error) {
		if runs, err = users.NewRuns(ctx, f.REST, f.fleet.Run, f.Scratch, flows); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := runs.Start(ctx); err != nil {
			return nil, err
		}
		f.Log("%d executions run, started in %.1f s", flows.Executions, time.Since(began).Seconds())
		f.ends.Go(func() { runs.Answer(ctx) })
		return func(ctx context.Context) error {
			first, last := live[0], live[len(live)-1]
			slices.Sort(live)
			middle := live[len(live)/2]
			f.note("of %d executions were under way: %d at the first fault, %d at the last, %d at the median fault", flows.Executions, first, last, middle)
			if middle == 0 {
				return fmt.Errorf("the executions were over before most of the %d faults: the attack proves nothing", rounds)
			}
			return runs.Judge(ctx, f.result)
		}, nil
	}
	attack.Fault = func(ctx context.Context, f *Fight) error {
		n, err := runs.Live(ctx)
		if err != nil {
			return err
		}
		live = append(live, n)
		return kill(ctx, f)
	}
	return attack
}
