package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mindcoordinator/mind/chaos/scenario"
	"github.com/mindcoordinator/mind/chaos/scenario/users"
)

// failover measures the time from a SIGKILL of the leader to the next accepted submit through the gateway, 20 times,
// under a load of eight clients and 20 jobs that run throughout and are checked afterwards.
func failover(ctx context.Context, b *bench) ([]figure, error) {
	c, stop, err := b.idle(ctx, "--agents", "2", "--gpus", "16xH100")
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(b.scratch, "mind-bench-evidence-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	mind, err := filepath.Abs(b.mind)
	if err != nil {
		return nil, err
	}
	v, err := scenario.KillLeader(20, scenario.Load{Steady: users.Steady{Jobs: 20}, Clients: 8, Pause: 50 * time.Millisecond, Followers: 4}).
		Run(ctx, scenario.Arena{Cluster: c, Mind: mind, Scratch: scratch})
	if err != nil {
		return nil, err
	}
	if err := v.Broken(); err != nil {
		return nil, err
	}
	median, longest := v.Outage(0.5), v.Outage(1)
	return []figure{{
		fmt.Sprintf("leader SIGKILL -> next write accepted, median / max of %d (%d jobs meanwhile, none lost, doubled or harmed)", v.Rounds, v.Jobs()),
		fmt.Sprintf("%.2f / %.2f s", median.Seconds(), longest.Seconds()), "-", "<= 1.0 / 2.0 s",
		median <= time.Second && longest <= 2*time.Second,
	}}, stop()
}
