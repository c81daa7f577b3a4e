package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/yardstick"
)

// invokeExecutions measures how many executions of one step start and complete, each client waiting for the output.
func invokeExecutions(ctx context.Context, b *bench) ([]figure, error) {
	y, m, err := b.against(ctx, raw(b, submitClients), func(c *procs.Cluster) (float64, error) {
		h, err := host(ctx, c)
		if err != nil {
			return 0, err
		}
		defer h.close()
		return h.rate(ctx, b)
	})
	return []figure{{
		"executions of one step without a job, start to output over gRPC, 64 clients", rate(m), "raw raft `Apply`, 64 proposers: " + rate(y),
		fmt.Sprintf(">= 1,500/s and 0.15 x (is %.2f x)", m/y), m >= 1500 && m >= 0.15*y,
	}}, err
}

func raw(b *bench, proposers int) func(*yardstick.Cluster) (float64, error) {
	return func(p *yardstick.Cluster) (float64, error) {
		r, err := p.Apply(proposers, b.seconds, 1)
		if err != nil {
			return 0, err
		}
		return failIf(r)
	}
}

func (h *hosted) rate(ctx context.Context, b *bench) (float64, error) {
	return failIf(yardstick.Drive(submitClients, b.length(), func(int) error { return h.one(ctx) }))
}

// advances measures the steps of 64 executions, each of which calls a flow again and again and waits for its output. A call is two
// steps: one of the caller and one of the flow.
func advances(ctx context.Context, b *bench) ([]figure, error) {
	y, m, err := b.against(ctx, raw(b, submitClients), func(c *procs.Cluster) (float64, error) {
		h, err := host(ctx, c)
		if err != nil {
			return 0, err
		}
		defer h.close()
		for range submitClients {
			if _, err := h.invoke(ctx, "calls", map[string]any{"n": 100_000}, false); err != nil {
				return 0, err
			}
		}
		if err := rest(ctx, b.length()/5); err != nil {
			return 0, err
		}
		before, err := procs.Sum(ctx, h.leader, "mind_advances_total")
		if err != nil {
			return 0, err
		}
		began := time.Now()
		if err := rest(ctx, b.length()); err != nil {
			return 0, err
		}
		after, err := procs.Sum(ctx, h.leader, "mind_advances_total")
		if err != nil {
			return 0, err
		}
		took := time.Since(began)
		if running, err := h.count(ctx, "failed"); err != nil || running > 0 {
			return 0, errors.Join(err, fmt.Errorf("%d executions failed", running))
		}
		return (after - before) / took.Seconds(), nil
	})
	return []figure{{
		"steps of 64 executions that call flows one after the other", rate(m), "raw raft `Apply`, 64 proposers: " + rate(y),
		fmt.Sprintf(">= 0.4 x (is %.2f x)", m/y), m >= 0.4*y,
	}}, err
}

// sequentialStep measures, by the times of events in the log, how long one call of a flow takes in an execution that makes one after
// the other while nothing else happens.
func sequentialStep(ctx context.Context, b *bench) ([]figure, error) {
	const calls = 1000
	var all []time.Duration
	var rare []float64
	y, _, err := b.against(ctx, func(p *yardstick.Cluster) (float64, error) {
		r, err := p.Apply(1, b.seconds, 1)
		rare = append(rare, float64(r.P99))
		return float64(r.P50), err
	}, func(c *procs.Cluster) (float64, error) {
		h, err := host(ctx, c)
		if err != nil {
			return 0, err
		}
		defer h.close()
		e, err := h.invoke(ctx, "calls", map[string]any{"n": calls}, true)
		if err != nil {
			return 0, err
		}
		steps, err := h.steps(ctx, e.GetExecutionId())
		if err == nil && len(steps) != calls-1 {
			err = fmt.Errorf("%d calls were seen, of %d", len(steps)+1, calls)
		}
		all = append(all, steps...)
		return 0, err
	})
	if err != nil {
		return nil, err
	}
	p50, p99, most := yardstick.Quantiles(all)
	return []figure{{
		fmt.Sprintf("a step that calls a flow, one after the other, idle cluster, p50 / p99 / max of %d (two entries each)", len(all)),
		fmt.Sprintf("%s / %s / %s", ms(p50), ms(p99), ms(most)), "raw raft `Apply`, p50 / p99: " + ms(time.Duration(y)) + " / " + ms(time.Duration(median(rare))), "<= 3.5 / 12 ms",
		p50 <= 3500*time.Microsecond && p99 <= 12*time.Millisecond,
	}}, nil
}

// steps returns the times between the beginnings of the calls of an execution.
func (h *hosted) steps(ctx context.Context, id string) (took []time.Duration, err error) {
	var times []time.Time
	cursor := ""
	for {
		got, err := h.cores.ListCoreEvents(call(ctx), &v1.ListCoreEventsRequest{ExecutionId: id, Limit: 500, Cursor: cursor})
		if err != nil {
			return nil, err
		}
		for _, e := range got.GetEvents() {
			if strings.HasSuffix(e.GetType(), "block.entered") && e.GetPayload().GetFields()["block_kind"].GetStringValue() == "core_call" {
				times = append(times, e.GetTimestamp().AsTime())
			}
		}
		if cursor = got.GetNextCursor(); cursor == "" {
			break
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	for i := 1; i < len(times); i++ {
		took = append(took, times[i].Sub(times[i-1]))
	}
	return took, nil
}

const manyWait = 100_000

// besideWaiting measures the rate of executions in a cluster in which 100,000 others wait, and in one without them.
func besideWaiting(ctx context.Context, b *bench) ([]figure, error) {
	measure := func(waiting int) func() (float64, error) {
		return func() (float64, error) {
			c, stop, err := b.idle(ctx, "--agents", "0")
			if err != nil {
				return 0, err
			}
			h, err := host(ctx, c)
			if err != nil {
				return 0, errors.Join(err, stop())
			}
			defer h.close()
			if err := h.crowd(ctx, waiting, time.Now().Add(time.Hour)); err != nil {
				return 0, errors.Join(err, stop())
			}
			v, err := h.rate(ctx, b)
			return v, errors.Join(err, stop())
		}
	}
	empty, full, err := b.pairs(measure(0), measure(manyWait))
	return []figure{{
		"the same executions while 100,000 others wait", rate(full), "none waits: " + rate(empty),
		fmt.Sprintf(">= 0.9 x (is %.2f x)", full/empty), full >= 0.9*empty,
	}}, err
}

// timersDue measures 100,000 timers that are due in the same second: how long until all have fired, and what other writes wait
// meanwhile.
func timersDue(ctx context.Context, b *bench) ([]figure, error) {
	const ahead, before, writers = 75 * time.Second, 3 * time.Second, 8
	c, stop, err := b.idle(ctx, "--agents", "0")
	if err != nil {
		return nil, err
	}
	h, err := host(ctx, c)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	defer h.close()
	jobs, closeAll, err := dial(c)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	defer closeAll()
	due := time.Now().Add(ahead).Truncate(time.Second)
	if err := h.crowd(ctx, manyWait, due); err != nil {
		return nil, errors.Join(err, stop())
	}
	if time.Until(due) < before {
		return nil, errors.Join(fmt.Errorf("the executions took %s to start, and their timers are due too soon", ahead-time.Until(due)), stop())
	}
	if err := rest(ctx, time.Until(due)-before); err != nil {
		return nil, errors.Join(err, stop())
	}

	// One job in ten milliseconds from each client, until all executions are over.
	load, end := context.WithCancel(ctx)
	var mu sync.Mutex
	var calm, busy []time.Duration
	var failed error
	var clients sync.WaitGroup
	for range writers {
		clients.Go(func() {
			job := smallJob("bench-timers")
			for rest(load, 10*time.Millisecond) == nil {
				start := time.Now()
				_, err := jobs.SubmitJob(call(ctx), job)
				took := time.Since(start)
				mu.Lock()
				switch {
				case err != nil:
					failed = err
				case start.Add(took).Before(due):
					calm = append(calm, took)
				case start.After(due):
					busy = append(busy, took)
				}
				mu.Unlock()
			}
		})
	}
	fired, err := h.until(ctx, "waiting", due)
	var over time.Duration
	if err == nil {
		over, err = h.until(ctx, "running", due)
	}
	end()
	clients.Wait()
	if err = errors.Join(err, failed); err != nil {
		return nil, errors.Join(err, stop())
	}
	_, p99, most := yardstick.Quantiles(busy)
	_, calm99, calmMost := yardstick.Quantiles(calm)
	return []figure{
		{
			"100,000 timers due in the same second: the last fired / its execution completed", fmt.Sprintf("%.1f s / %.1f s", fired.Seconds(), over.Seconds()),
			"-", "<= 10 s", fired <= 10*time.Second,
		},
		{
			fmt.Sprintf("submits meanwhile, 8 clients, p99 / max of %d", len(busy)), fmt.Sprintf("%s / %s", ms(p99), ms(most)),
			fmt.Sprintf("in the %s before: %s / %s", before, ms(calm99), ms(calmMost)), "<= 50 ms", p99 <= 50*time.Millisecond,
		},
	}, stop()
}

// until waits until no execution has a status, and returns the time since an instant, which it first waits for.
func (h *hosted) until(ctx context.Context, status string, since time.Time) (time.Duration, error) {
	if err := rest(ctx, time.Until(since)); err != nil {
		return 0, err
	}
	for {
		n, err := h.count(ctx, status)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return time.Since(since), nil
		}
		if time.Since(since) > 5*time.Minute {
			return 0, fmt.Errorf("%d executions are still %s five minutes after they were due", n, status)
		}
		if err := rest(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
}
