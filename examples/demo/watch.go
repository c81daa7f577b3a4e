package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// watch reads the streams of the training's metrics and log from beginning to end, over the failover.
type watch struct {
	rest *rest
	job  string
	ends sync.WaitGroup
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	steps  int64
	losses []float64
	lines  []line
	errs   []error
}

// line is a loss line of the log: its step, and the time at which the shim read it.
type line struct {
	step int
	at   time.Time
}

func newWatch(r *rest, job string) *watch {
	return &watch{rest: r, job: job, done: make(chan struct{})}
}

// start starts watching. The returned function stops the watch and waits for its end.
func (w *watch) start(ctx context.Context, live func(step int64, loss float64)) func() {
	ctx, w.stop = context.WithCancel(ctx)
	w.follow(ctx, "/metrics/stream", func(e event) error {
		var m struct {
			Step int64    `json:"step"`
			Loss *float64 `json:"loss"`
		}
		if err := json.Unmarshal([]byte(e.data), &m); err != nil {
			return fmt.Errorf("metrics %q: %w", e.data, err)
		}
		if m.Loss == nil {
			return nil
		}
		w.mu.Lock()
		w.steps, w.losses = m.Step, append(w.losses, *m.Loss)
		w.mu.Unlock()
		live(m.Step, *m.Loss)
		return nil
	})
	w.follow(ctx, "/logs", func(e event) error {
		l, ok, err := lossLine(e.data)
		if err != nil || !ok {
			return err
		}
		w.mu.Lock()
		w.lines = append(w.lines, l)
		w.mu.Unlock()
		return nil
	})
	go func() {
		w.ends.Wait()
		close(w.done)
	}()
	return func() {
		w.stop()
		<-w.done
	}
}

func (w *watch) follow(ctx context.Context, path string, take func(event) error) {
	w.ends.Go(func() {
		if err := w.rest.stream(ctx, "/jobs/"+w.job+path, take); err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.errs = append(w.errs, err)
		}
	})
}

var lossForm = regexp.MustCompile(`^step (\d+)/\d+  loss `)

func lossLine(data string) (line, bool, error) {
	var l struct {
		Message   string    `json:"message"`
		Timestamp time.Time `json:"timestamp"`
	}
	if err := json.Unmarshal([]byte(data), &l); err != nil {
		return line{}, false, fmt.Errorf("log entry %q: %w", data, err)
	}
	m := lossForm.FindStringSubmatch(l.Message)
	if m == nil {
		return line{}, false, nil
	}
	step, err := strconv.Atoi(m[1])
	return line{step, l.Timestamp}, true, err
}

// wait waits until both streams have ended, and returns their errors.
func (w *watch) wait(ctx context.Context) error {
	select {
	case <-w.done:
	case <-time.After(15 * time.Second):
		return errors.New("the streams of the training go on although it has ended")
	case <-ctx.Done():
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.errs...)
}

func (w *watch) step() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.steps
}

func (w *watch) firstLoss() float64 { return w.loss(func(n int) int { return 0 }) }
func (w *watch) lastLoss() float64  { return w.loss(func(n int) int { return n - 1 }) }

func (w *watch) loss(at func(n int) int) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.losses) == 0 {
		return 0
	}
	return w.losses[at(len(w.losses))]
}
