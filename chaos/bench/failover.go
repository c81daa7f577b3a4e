package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mindcoordinator/mind/chaos/scenario"
)

// failover measures from SIGKILL of the leader to the next accepted submit through the gateway, 20 times, under a load of
// eight clients whose jobs are checked afterwards.
func failover(ctx context.Context, b *bench) ([]figure, error) {
	c, stop, err := b.idle(ctx, "--agents", "2", "--gpus", "8xH100", "--restart")
	if err != nil {
		return nil, err
	}
	marks, err := os.MkdirTemp(b.scratch, "mind-bench-marks-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(marks)
	report, err := scenario.KillLeader{Rounds: 20, Clients: 8, Pause: 50 * time.Millisecond, Between: time.Second, Scratch: marks}.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := report.Broken(); err != nil {
		return nil, err
	}
	median, longest := report.Outage()
	return []figure{{
		fmt.Sprintf("leader SIGKILL -> next write accepted, median / max of %d (%d jobs meanwhile, none lost, doubled or harmed)", report.Rounds, report.Acknowledged),
		fmt.Sprintf("%.2f / %.2f s", median.Seconds(), longest.Seconds()), "-", "<= 1.0 / 2.0 s",
		median <= time.Second && longest <= 2*time.Second,
	}}, stop()
}
