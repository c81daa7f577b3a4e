package stage

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

// Watch reads the streams of the training's metrics and log from beginning to end, over the failover.
type Watch struct {
	rest *REST
	job  string
	ends sync.WaitGroup
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	steps  int64
	losses []float64
	errs   []error

	// Lines are the loss lines of the log, and HeldOut is the loss on held-out text that the training reported at its end. They are
	// read after Wait.
	Lines   []Line
	HeldOut float64
}

// Line is a loss line of the log: its step, and the time at which the shim read it.
type Line struct {
	Step int
	At   time.Time
}

// NewWatch returns a watch of a job.
func NewWatch(r *REST, job string) *Watch {
	return &Watch{rest: r, job: job, done: make(chan struct{})}
}

// Start starts watching. The returned function stops the watch and waits for its end.
func (w *Watch) Start(ctx context.Context, live func(step int64, loss float64)) func() {
	ctx, w.stop = context.WithCancel(ctx)
	w.follow(ctx, "/metrics/stream", func(e Event) error {
		var m struct {
			Step    int64    `json:"step"`
			Loss    *float64 `json:"loss"`
			HeldOut float64  `json:"held_out_loss"`
		}
		if err := json.Unmarshal([]byte(e.Data), &m); err != nil {
			return fmt.Errorf("metrics %q: %w", e.Data, err)
		}
		w.mu.Lock()
		w.HeldOut = max(w.HeldOut, m.HeldOut)
		if m.Loss != nil {
			w.steps, w.losses = m.Step, append(w.losses, *m.Loss)
		}
		w.mu.Unlock()
		if m.Loss == nil {
			return nil
		}
		live(m.Step, *m.Loss)
		return nil
	})
	w.follow(ctx, "/logs", func(e Event) error {
		l, ok, err := lossLine(e.Data)
		if err != nil || !ok {
			return err
		}
		w.mu.Lock()
		w.Lines = append(w.Lines, l)
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

func (w *Watch) follow(ctx context.Context, path string, take func(Event) error) {
	w.ends.Go(func() {
		if err := w.rest.Stream(ctx, "/jobs/"+w.job+path, take); err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.errs = append(w.errs, err)
		}
	})
}

var lossForm = regexp.MustCompile(`^step (\d+)/\d+  loss `)

// lossLine reads an entry of the log, and says whether it is a loss line of charlm.
func lossLine(data string) (Line, bool, error) {
	var l struct {
		Message   string    `json:"message"`
		Timestamp time.Time `json:"timestamp"`
	}
	if err := json.Unmarshal([]byte(data), &l); err != nil {
		return Line{}, false, fmt.Errorf("log entry %q: %w", data, err)
	}
	m := lossForm.FindStringSubmatch(l.Message)
	if m == nil {
		return Line{}, false, nil
	}
	step, err := strconv.Atoi(m[1])
	return Line{step, l.Timestamp}, true, err
}

// Wait waits until both streams have ended, and returns their errors.
func (w *Watch) Wait(ctx context.Context) error {
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

// Step is the newest step that the training has reported.
func (w *Watch) Step() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.steps
}

// FirstLoss and LastLoss are losses that the training has reported; 0: none.
func (w *Watch) FirstLoss() float64 { return w.loss(func(n int) int { return 0 }) }

// LastLoss is the newest loss.
func (w *Watch) LastLoss() float64 { return w.loss(func(n int) int { return n - 1 }) }

func (w *Watch) loss(at func(n int) int) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.losses) == 0 {
		return 0
	}
	return w.losses[at(len(w.losses))]
}
