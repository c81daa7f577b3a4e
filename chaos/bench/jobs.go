package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/yardstick"
)

// submitToRunning measures the time from the submit to the first action of the job's process, which writes into a pipe.
func submitToRunning(ctx context.Context, b *bench) ([]figure, error) {
	const samples = 200
	c, stop, err := b.idle(ctx, "--agents", "2", "--gpus", "8xH100")
	if err != nil {
		return nil, err
	}
	pipe := filepath.Join(b.scratch, fmt.Sprintf("mind-bench-%d.pipe", os.Getpid()))
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		return nil, err
	}
	defer os.Remove(pipe)
	// The pipe is also opened for writing, so that reads do not end when a job closes its end.
	f, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	started := make(chan time.Time, 1)
	go func() {
		for lines := bufio.NewScanner(f); lines.Scan(); {
			started <- time.Now()
		}
	}()
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	rest := procs.NewREST(info)
	var took []time.Duration
	for i := range samples {
		job := procs.Command(fmt.Sprintf("bench-launch-%d", i), 1, "/bin/sh", "-c", "echo up > "+pipe)
		sent := time.Now()
		id, err := rest.Submit(ctx, "", job)
		if err != nil {
			return nil, err
		}
		select {
		case at := <-started:
			took = append(took, at.Sub(sent))
		case <-time.After(10 * time.Second):
			return nil, fmt.Errorf("job %s did not start within 10 s", id)
		}
		if _, err := rest.WaitEnded(ctx, id); err != nil {
			return nil, err
		}
	}
	p50, p99, most := yardstick.Quantiles(took)
	return []figure{{
		fmt.Sprintf("submit over REST -> process running, idle cluster, p50 / p99 / max of %d", samples),
		fmt.Sprintf("%s / %s / %s", ms(p50), ms(p99), ms(most)), "-", "<= 15 / 50 ms",
		p50 <= 15*time.Millisecond && p99 <= 50*time.Millisecond,
	}}, stop()
}

// drainTrue measures the time from the first submit to the end of the last of 10,000 jobs.
func drainTrue(ctx context.Context, b *bench) ([]figure, error) {
	const total, perBatch = 10_000, 500
	c, stop, err := b.idle(ctx, "--agents", "2", "--gpus", "8xH100")
	if err != nil {
		return nil, err
	}
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	// The yardstick is the rate at which the machine can run bare processes.
	alone := yardstick.Drive(2, b.length(), func(int) error { return exec.Command("true").Run() })
	if _, err := failIf(alone); err != nil {
		return nil, err
	}
	rest := procs.NewREST(info)
	start := time.Now()
	for from := 0; from < total; from += perBatch {
		var jobs []any
		for i := range perBatch {
			jobs = append(jobs, procs.Command(fmt.Sprintf("true-%d", from+i), 1, "true"))
		}
		if err := rest.Do(ctx, "POST", "/jobs/batch", nil, map[string]any{"jobs": jobs}, nil); err != nil {
			return nil, err
		}
	}
	submitted := time.Since(start)
	for {
		var cluster struct {
			Jobs map[string]int `json:"jobs"`
		}
		if err := rest.Get(ctx, "/cluster", &cluster); err != nil {
			return nil, err
		}
		if bad := cluster.Jobs["FAILED"] + cluster.Jobs["CANCELED"]; bad > 0 {
			return nil, fmt.Errorf("%d of the jobs failed", bad)
		}
		if cluster.Jobs["SUCCEEDED"] == total {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
	took := time.Since(start)
	perMinute := total / took.Minutes()
	return []figure{{
		"10,000 jobs of `true`, two agents",
		fmt.Sprintf("%.0f jobs/min (all in %.1f s, submitted in %.1f s)", perMinute, took.Seconds(), submitted.Seconds()),
		fmt.Sprintf("fork+exec of `true` alone, 2 at a time: %.0f/min", alone.PerSecond*60), ">= 12,000 jobs/min", perMinute >= 12_000,
	}}, stop()
}

// memoryPerJob measures how the leader's resident memory grows from 0 to 100,000 queued jobs.
func memoryPerJob(ctx context.Context, b *bench) ([]figure, error) {
	const total, perBatch = 100_000, 1000
	c, stop, err := b.idle(ctx, "--agents", "0")
	if err != nil {
		return nil, err
	}
	leader, err := c.Leader(ctx)
	if err != nil {
		return nil, err
	}
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	before, err := rss(leader.PID)
	if err != nil {
		return nil, err
	}
	rest := procs.NewREST(info)
	// A tenant may not have so many by default.
	if err := rest.Do(ctx, "PUT", "/tenants/-/quota", nil, map[string]any{"max_submissions": -1, "max_spec_mb": -1}, nil); err != nil {
		return nil, err
	}
	for from := 0; from < total; from += perBatch {
		var jobs []any
		for i := range perBatch {
			job := procs.Command(fmt.Sprintf("queued-%d", from+i), 1, "/usr/bin/python3", "train.py", "--seed", "7")
			job["labels"] = map[string]string{"team": "nlp", "experiment": "bench"}
			jobs = append(jobs, job)
		}
		if err := rest.Do(ctx, "POST", "/jobs/batch", nil, map[string]any{"jobs": jobs}, nil); err != nil {
			return nil, err
		}
	}
	// The garbage of the load is freed in the next garbage collections, which an idle process makes every two minutes.
	least := int64(1 << 62)
	for end := time.Now().Add(130 * time.Second); time.Now().Before(end); {
		now, err := rss(leader.PID)
		if err != nil {
			return nil, err
		}
		least = min(least, now)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
	perJob := float64(least-before) / total
	return []figure{{
		"leader's memory per queued job, 0 to 100,000 (resident, settled)",
		fmt.Sprintf("%.2f KiB (%d -> %d MiB)", perJob/1024, before>>20, least>>20), "-", "<= 4 KiB", perJob <= 4096,
	}}, stop()
}

func rss(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(text), "VmRSS:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil || !ok {
		return 0, fmt.Errorf("no VmRSS of pid %d: %w", pid, err)
	}
	return kib << 10, nil
}
