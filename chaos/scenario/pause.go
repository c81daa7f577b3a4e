package scenario

import (
	"context"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/chaos/procs"
)

// Pause stops a process (SIGSTOP) and continues it: the leader, a follower and an agent in turn. A stopped process does
// not know that time has passed, and the others cannot distinguish it from a dead one.
func Pause(rounds int, length time.Duration, load Load) Attack {
	return Attack{
		Name: "pause", Load: load, Rounds: rounds, Between: 500 * time.Millisecond, Takes: true,
		Fault: func(ctx context.Context, f *Fight) error {
			victims := []struct {
				kind string
				find func(context.Context) (procs.Component, error)
			}{{"pause-leader", f.Cluster.Leader}, {"pause-follower", f.Cluster.Follower}, {"pause-agent", f.busiest}}
			victim := victims[(f.Round-1)%len(victims)]
			p, err := victim.find(ctx)
			if err != nil {
				return err
			}
			stopped := time.Now()
			if err := f.Cluster.Signal(p, syscall.SIGSTOP); err != nil {
				return err
			}
			err = f.Outage(ctx, victim.kind, stopped)
			if err == nil {
				wait.For(ctx, length-time.Since(stopped))
				err = ctx.Err()
			}
			if cont := f.Cluster.Signal(p, syscall.SIGCONT); err == nil {
				err = cont
			}
			if err != nil {
				return err
			}
			if p.NodeID != "" {
				return f.nodeBack(ctx, p.NodeID)
			}
			return f.Cluster.WaitReady(ctx, p)
		},
	}
}
