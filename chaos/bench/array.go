package main

import (
	"context"
	"fmt"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
)

// drainArray measures the time from the submit of an array of 100,000 elements to the end of the last one, and the
// rates of the first and the last 10,000. The elements take a tenth of a GPU each, so that the agents and not the GPUs
// are the limit.
func drainArray(ctx context.Context, b *bench) ([]figure, error) {
	const total, part = 100_000, 10_000
	c, stop, err := b.idle(ctx, "--agents", "2", "--gpus", "8xH100")
	if err != nil {
		return nil, err
	}
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	rest := procs.NewREST(info)
	job := procs.Command("array", 0, "true")
	job["resource_config"] = map[string]any{"gpu_fraction": 0.1}
	job["scheduling_config"] = map[string]any{"array": map[string]any{"start": 0, "end": total - 1}}
	start := time.Now()
	id, err := rest.Submit(ctx, "", job)
	if err != nil {
		return nil, err
	}
	submitted := time.Since(start)
	var first, last time.Duration
	for {
		var seen struct {
			Array struct{ Succeeded, Failed, Canceled int }
		}
		if err := rest.Get(ctx, "/jobs/"+id, &seen); err != nil {
			return nil, err
		}
		if bad := seen.Array.Failed + seen.Array.Canceled; bad > 0 {
			return nil, fmt.Errorf("%d of the elements failed", bad)
		}
		now := time.Since(start)
		if seen.Array.Succeeded >= part && first == 0 {
			first = now
		}
		if seen.Array.Succeeded >= total-part && last == 0 {
			last = now
		}
		if seen.Array.Succeeded == total {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	took := time.Since(start)
	perMinute := total / took.Minutes()
	return []figure{{
		"a job array of 100,000 `true`, two agents",
		fmt.Sprintf("%.0f elements/min (submitted in %s; first 10,000 in %.1f s, last 10,000 in %.1f s)",
			perMinute, ms(submitted), first.Seconds(), (took - last).Seconds()),
		"-", ">= 30,000 elements/min", perMinute >= 30_000,
	}}, stop()
}
