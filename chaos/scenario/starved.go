package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
)

// Throttle slows processes down.
type Throttle interface {
	// Slow limits the processes, and the ones that they start, to the given part of one processor together.
	Slow(pids []int, part float64) error
	// Release removes the limit.
	Release() error
}

// starvedPart is the part of one processor that a starved cluster gets.
const starvedPart = 1.0 / 20

// Starved limits the whole cluster, its coordinators, agents, gateway and jobs, to the twentieth part of one processor
// for a while. Every answer then takes seconds. If the leader is lost, another one must lead within settle, and
// continue to lead.
func Starved(rounds int, length, settle time.Duration, load Load) Attack {
	return Attack{
		Name: "starved", Load: load, Rounds: rounds, Between: 5 * time.Second,
		Fault: func(ctx context.Context, f *Fight) error {
			if f.Throttle == nil {
				return errors.New("the cluster cannot be slowed down")
			}
			info, err := f.Cluster.Info()
			if err != nil {
				return err
			}
			pids := []int{info.PID, info.Gateway.PID}
			for _, p := range append(info.Coordinators, info.Agents...) {
				pids = append(pids, p.PID)
			}
			begun := time.Now()
			if err := f.Throttle.Slow(pids, starvedPart); err != nil {
				return fmt.Errorf("slowing the cluster down: %w", err)
			}
			f.result.Fault("starved")
			wait.For(ctx, length)
			err = ctx.Err()
			end := time.Now()
			if err := errors.Join(err, f.Throttle.Release()); err != nil {
				return err
			}
			all, err := f.terms()
			if err != nil {
				return err
			}
			lost := lost(all, begun, end)
			f.requireLeader(all, lost, end, settle)
			f.note("round %d: the leader was lost after %.1f s of %.1f s", f.Round, lost.Sub(begun).Seconds(), end.Sub(begun).Seconds())
			return f.Outage(ctx, "starved-no-longer", time.Now())
		},
	}
}
