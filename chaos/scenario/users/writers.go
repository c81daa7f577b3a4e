package users

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/scenario/result"
)

// Writers are clients that submit short jobs during an attack. Each submit is repeated under its idempotency key until
// it is acknowledged. Each run of a job leaves a mark, which shows jobs that ran twice or never.
type Writers struct {
	rest   *procs.REST
	run    string // part of each key: one cluster may be attacked several times
	marks  string
	pause  time.Duration
	errors atomic.Int64
	probes atomic.Int64

	// held is locked while clients must not submit.
	held sync.RWMutex

	mu           sync.Mutex
	acknowledged map[string]string // key -> job id
	// lossy: jobs that are acknowledged may be lost. They are recorded in mayBeLost and not in acknowledged.
	lossy     bool
	mayBeLost map[string]string
}

// NewWriters makes clients whose jobs leave their marks in scratch. Every name begins with run.
func NewWriters(rest *procs.REST, run, scratch string, pause time.Duration) (*Writers, error) {
	w := &Writers{rest: rest, run: run, marks: filepath.Join(scratch, run, "marks"), pause: pause, acknowledged: map[string]string{}, mayBeLost: map[string]string{}}
	return w, os.MkdirAll(w.marks, 0o777)
}

// Start starts clients, which work until stop is called. stop waits for submits in progress.
func (w *Writers) Start(ctx context.Context, clients int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				w.submit(ctx, fmt.Sprintf("%s-client-%d-job-%d", w.run, c, n), n%2)
				select {
				case <-ctx.Done():
				case <-time.After(w.pause):
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
}

// Acknowledged returns the number of acknowledged jobs, without those that may be lost.
func (w *Writers) Acknowledged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acknowledged)
}

// submit repeats one job under one key until it is acknowledged. A submit in progress is finished before the client
// stops: a key with an unknown outcome could not be checked.
func (w *Writers) submit(ctx context.Context, key string, gpus int) {
	job := procs.Command(key, gpus, "/bin/sh", "-c", `echo "$MIND_ATTEMPT" >> "$MARKS/$MIND_JOB_ID"`)
	job["command_config"].(map[string]any)["environment"] = map[string]string{"MARKS": w.marks}
	w.held.RLock()
	defer w.held.RUnlock()
	id, err := submitUntilKnown(ctx, w.rest, key, job, &w.errors)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lossy {
		w.mayBeLost[key] = id
		return
	}
	w.acknowledged[key] = id
}

// Hold waits for submits in progress, and keeps clients from submitting until resume is called. It returns the jobs
// that were acknowledged so far.
func (w *Writers) Hold() (resume func(), ids []string) {
	w.held.Lock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range w.acknowledged {
		ids = append(ids, id)
	}
	return sync.OnceFunc(w.held.Unlock), ids
}

// Unsure records that jobs that are acknowledged before sure is called may be lost.
func (w *Writers) Unsure() (sure func()) {
	set := func(lossy bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lossy = lossy
	}
	set(true)
	return func() { set(false) }
}

// lastTry limits a request that is in progress when an attack is stopped.
const lastTry = time.Minute

// submitUntilKnown repeats a submit until it is acknowledged or refused for good. After ctx has ended, it gives up when
// there is no answer for a while.
func submitUntilKnown(ctx context.Context, rest *procs.REST, key string, job any, failed *atomic.Int64) (string, error) {
	last := context.WithoutCancel(ctx)
	var over <-chan time.Time
	for {
		try, cancel := context.WithTimeout(last, lastTry)
		id, err := rest.Submit(try, key, job)
		cancel()
		if err == nil {
			return id, nil
		}
		if failed != nil {
			failed.Add(1)
		}
		var refused *procs.Error
		if errors.As(err, &refused) && refused.HTTP < 500 && refused.HTTP != http.StatusTooManyRequests {
			return "", err
		}
		if ctx.Err() != nil && over == nil {
			over = time.After(lastTry)
		}
		select {
		case <-over:
			return "", err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// FirstWriteSince writes until a write sent after t is accepted, and returns how long after t that was. It is a
// separate client: a client whose request is stuck does not show when writes work again.
func (w *Writers) FirstWriteSince(ctx context.Context, t time.Time, within time.Duration) (time.Duration, error) {
	probe, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	n := w.probes.Add(1)
	for i := 0; ; i++ {
		key := fmt.Sprintf("%s-probe-%d-%d", w.run, n, i)
		_, err := w.rest.Submit(probe, key, procs.Command(key, 0, "/bin/true"))
		if err == nil {
			return time.Since(t), nil
		}
		if probe.Err() != nil {
			return 0, fmt.Errorf("no write was accepted within %s of the fault: %w", within, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Verify checks that each acknowledged job exists once, and ran once with success. For jobs that may be lost it checks
// that they end, if they exist.
func (w *Writers) Verify(ctx context.Context, v *result.Result) error {
	v.Submitted += len(w.acknowledged)
	v.ClientErrors += int(w.errors.Load())
	lost := 0
	for key, id := range w.mayBeLost {
		var refused *procs.Error
		switch _, err := w.rest.WaitEnded(ctx, id); {
		case errors.As(err, &refused) && refused.HTTP == http.StatusNotFound:
			lost++
		case err != nil:
			return fmt.Errorf("%s (%s), which might have been lost, never ended: %w", key, id, err)
		}
	}
	if len(w.mayBeLost) > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%d jobs were acknowledged by coordinators whose disks were lost before the one that was recovered had heard of them; %d of them are gone", len(w.mayBeLost), lost))
	}
	for key, id := range w.acknowledged {
		j, err := w.rest.WaitEnded(ctx, id)
		var refused *procs.Error
		if errors.As(err, &refused) && refused.HTTP == http.StatusNotFound {
			v.Lost = append(v.Lost, key+"="+id)
			continue
		}
		if err != nil {
			return err
		}
		mark, err := os.ReadFile(filepath.Join(w.marks, id))
		if j.State != "SUCCEEDED" || err != nil || string(mark) != "1\n" {
			v.Harmed = append(v.Harmed, fmt.Sprintf("%s (%s) is %s %s, its runs left %q (%v)", key, id, j.State, j.ErrorMessage, mark, err))
		}
	}
	return w.doubled(ctx, v)
}

// doubled records names that more than one job has; each name of an attack is used under one key only.
func (w *Writers) doubled(ctx context.Context, v *result.Result) error {
	run := w.run
	all, err := w.rest.Jobs(ctx, "")
	if err != nil {
		return err
	}
	names := map[string]string{}
	for _, j := range all {
		if len(j.Name) < len(run) || j.Name[:len(run)] != run {
			continue
		}
		if other, ok := names[j.Name]; ok {
			v.Doubled = append(v.Doubled, fmt.Sprintf("%s is %s and %s", j.Name, other, j.ID))
		}
		names[j.Name] = j.ID
	}
	return nil
}
