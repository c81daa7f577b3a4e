package scenario

import (
	"context"
	"time"
)

// KillLeader kills the leader, measures how long writes wait, and continues when the killed coordinator is back.
func KillLeader(rounds int, load Load) Attack {
	return Attack{
		Name: "kill-leader", Load: load, Rounds: rounds, Between: 500 * time.Millisecond, Takes: true,
		Fault: func(ctx context.Context, f *Fight) error {
			leader, err := f.Cluster.Leader(ctx)
			if err != nil {
				return err
			}
			killed := time.Now()
			if err := f.Cluster.Kill(leader); err != nil {
				return err
			}
			if err := f.Outage(ctx, "kill-leader", killed); err != nil {
				return err
			}
			return f.Cluster.Revive(ctx, leader)
		},
	}
}
