package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/ship"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/tasks"
)

// LogArchive says where logs and metrics of tasks are shipped to. The zero
// value means nowhere: they are on the node alone.
type LogArchive struct {
	// URL of the archive, as package archive takes it.
	URL string
	// Access to a bucket; the zero value: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
	Access archive.Access
	// Flush is how old lines may get before they are shipped; 0: 30 s, negative:
	// until their segment is full or the task has ended.
	Flush time.Duration
	// Rate bounds the bytes a second; 0: no bound.
	Rate int64
	// Wait bounds how long the directory of an ended task is kept, beyond what
	// KeepTasks and KeepTasksFor say, because the archive has not taken all of
	// it; 0: 24 h.
	Wait time.Duration
}

func (l LogArchive) validate() error {
	if l.URL == "" {
		return nil
	}
	var faults []error
	if err := archive.Check(l.URL); err != nil {
		faults = append(faults, fmt.Errorf("log archive: %w", err))
	}
	if l.Rate < 0 || l.Wait < 0 {
		faults = append(faults, errors.New("log archive: rate or wait is negative"))
	}
	return errors.Join(faults...)
}

// openArchive makes the shipper, if there is an archive.
func (a *agent) openArchive() error {
	cfg := &a.cfg.LogArchive
	if cfg.URL == "" {
		return nil
	}
	if cfg.Wait == 0 {
		cfg.Wait = 24 * time.Hour
	}
	store, err := archive.Open(cfg.URL, cfg.Access)
	if err != nil {
		return fmt.Errorf("log archive: %w", err)
	}
	a.shipper = ship.New(ship.Config{
		Store: store, Node: a.cfg.NodeID, Tasks: a.toShip, LogDir: shim.LogDir, MetricsFile: metricsFile, MetricsBytes: a.cfg.MetricsBytes,
		Flush: cfg.Flush, Rate: cfg.Rate, Log: a.log, Metrics: a.cfg.Metrics, Finished: func(tasks.Task) { a.post(a.tidy) },
	})
	return nil
}

// ship runs the shipper, if there is one.
func (a *agent) ship(ctx context.Context) {
	if a.shipper != nil {
		a.shipper.Run(ctx)
	}
}

// toShip lists the tasks that the archive should have.
func (a *agent) toShip() []ship.Task {
	answer := make(chan []ship.Task, 1)
	a.post(func() {
		all := make([]ship.Task, 0, len(a.tasks))
		for k, t := range a.tasks {
			all = append(all, ship.Task{Task: k.archived(), Dir: t.dir, Ended: t.state == ended})
		}
		answer <- all
	})
	select {
	case all := <-answer:
		return all
	case <-a.over:
		return nil
	}
}

// archived is the name of a task in the archive.
func (k key) archived() tasks.Task {
	return tasks.Task{Job: k.job, Attempt: k.attempt, Rank: k.rank, Token: k.token}
}

// mayGo says whether the directory of an ended task may be removed: what it
// holds is in the archive, or was given time enough to get there.
func (a *agent) mayGo(t *task, now time.Time) bool {
	if a.shipper == nil || a.shipper.Done(t.key.archived()) {
		return true
	}
	if now.Sub(t.endedAt) < a.cfg.LogArchive.Wait {
		return false
	}
	a.metrics.abandoned.Inc()
	a.log.Error("removing what a task wrote though the archive did not take it", "job", t.key.job, "attempt", t.key.attempt, "rank", t.key.rank, "ended", t.endedAt)
	return true
}
