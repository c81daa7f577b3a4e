// Package logship copies the output of tasks from their node into an archive.
//
// Contract: a Shipper lists the tasks periodically, and puts their logs and metrics into the archive in the layout of
// package archive/tasks: a segment as soon as it is closed, the open end every Flush, and the rest when the task has
// ended, followed by a final manifest. The metric series are shipped more rarely, because they are shipped whole.
//
// Guarantees: Done is true for a task only if the archive has all of its output. A mark in the task's directory records
// what was shipped, so that the next agent continues where this one stopped. A failing store is retried, with growing
// pauses, as long as the task's directory exists. At most Workers parts are in flight, and at most Rate bytes are sent
// per second.
//
// Not guaranteed: when a node dies, the lines since the last Flush are lost.
package logship

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/tasks"
)

// Task is a task whose output is shipped.
type Task struct {
	tasks.Task
	// Dir is the directory of the task.
	Dir string
	// Ended: the output is complete.
	Ended bool
}

// Config configures a Shipper. Store, Node, Tasks, Log and Metrics are required.
type Config struct {
	Store archive.Store
	Node  string
	// Tasks lists the tasks of the node.
	Tasks func() []Task
	// LogDir is the log's directory in a task's directory, MetricsFile the name of its metrics file.
	LogDir, MetricsFile string
	// MetricsBytes limits how much of the metrics is shipped, from their start; 0: all.
	MetricsBytes int64
	// SeriesFile is the name of the file with the task's metric series, SeriesBytes its largest size.
	SeriesFile  string
	SeriesBytes int64

	// Scan is how often the tasks are listed; 0: 1 s.
	Scan time.Duration
	// Flush is the age at which an open end is shipped; 0: 30 s, negative: only when it is closed or the task has ended.
	Flush time.Duration
	// Workers limits how many tasks are shipped at the same time; 0: 4.
	Workers int
	// Rate limits the upload in bytes per second; 0: no limit.
	Rate int64
	// Finished is called when all output of a task was shipped.
	Finished func(tasks.Task)

	Log     *slog.Logger
	Metrics prometheus.Registerer
}

const (
	// retryMin and retryMax are the pauses after a store failed.
	retryMin = time.Second
	retryMax = time.Minute
	// putTimeout limits the upload of one part.
	putTimeout = 2 * time.Minute
)

// Shipper ships until its context ends.
type Shipper struct {
	cfg     Config
	metrics *metrics
	rate    archive.Rate

	mu   sync.Mutex
	done map[tasks.Task]bool

	// The fields below belong to Run.
	known   map[tasks.Task]*shipment
	results chan *shipment
	busy    int
}

// New returns a shipper that has not started.
func New(cfg Config) *Shipper {
	if cfg.Scan <= 0 {
		cfg.Scan = time.Second
	}
	if cfg.Flush == 0 {
		cfg.Flush = 30 * time.Second
	}
	if cfg.Workers <= 0 {
		cfg.Workers = 4
	}
	s := &Shipper{
		cfg: cfg, rate: archive.Rate{PerSecond: cfg.Rate}, done: make(map[tasks.Task]bool),
		known: make(map[tasks.Task]*shipment), results: make(chan *shipment),
	}
	s.metrics = newMetrics(cfg.Metrics)
	return s
}

// Done reports whether the archive has all of a task's output.
func (s *Shipper) Done(t tasks.Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[t]
}

// Run ships until ctx ends.
func (s *Shipper) Run(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := time.NewTicker(s.cfg.Scan)
	defer tick.Stop()
	for {
		for _, next := range s.due(time.Now()) {
			s.busy++
			next.busy = true
			workers.Go(func() {
				next.step(ctx)
				select {
				case s.results <- next:
				case <-ctx.Done():
				}
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case came := <-s.results:
			s.settle(ctx, came)
		}
	}
}

// due lists the tasks and returns the shipments that are due: ended tasks first, because their directories may have to
// be removed.
func (s *Shipper) due(now time.Time) []*shipment {
	present := make(map[tasks.Task]bool)
	var waiting []*shipment
	unfinished := 0
	for _, t := range s.cfg.Tasks() {
		present[t.Task] = true
		sh, ok := s.known[t.Task]
		if !ok {
			sh = &shipment{shipper: s, task: t.Task, dir: t.Dir}
			s.known[t.Task] = sh
		}
		if sh.busy {
			unfinished++
			continue
		}
		sh.ended = t.Ended
		if sh.final {
			continue
		}
		if t.Ended {
			unfinished++
		}
		if !now.Before(sh.notBefore) {
			waiting = append(waiting, sh)
		}
	}
	s.metrics.waiting.Set(float64(unfinished))
	for t, sh := range s.known {
		if !present[t] && !sh.busy {
			delete(s.known, t)
			s.mu.Lock()
			delete(s.done, t)
			s.mu.Unlock()
		}
	}
	slices.SortFunc(waiting, func(a, b *shipment) int {
		if a.ended != b.ended {
			if a.ended {
				return -1
			}
			return 1
		}
		return cmp.Or(a.lookedAt.Compare(b.lookedAt), cmp.Compare(a.task.Token, b.task.Token))
	})
	return waiting[:min(len(waiting), s.cfg.Workers-s.busy)]
}

// settle records the result of a step.
func (s *Shipper) settle(ctx context.Context, sh *shipment) {
	s.busy--
	sh.busy = false
	now := time.Now()
	sh.lookedAt = now
	switch {
	case ctx.Err() != nil:
	case sh.err != nil:
		s.metrics.failures.Inc()
		if sh.pause == 0 {
			s.cfg.Log.Warn("cannot archive the output of a task now", "job", sh.task.Job, "attempt", sh.task.Attempt, "rank", sh.task.Rank, "error", sh.err)
		}
		sh.pause = min(max(2*sh.pause, retryMin), retryMax)
		sh.notBefore = now.Add(sh.pause/2 + rand.N(sh.pause/2))
	default:
		sh.pause = 0
		sh.notBefore = now
		if !sh.more {
			sh.notBefore = now.Add(s.cfg.Scan)
		}
		if sh.final {
			s.mu.Lock()
			s.done[sh.task] = true
			s.mu.Unlock()
			if s.cfg.Finished != nil {
				s.cfg.Finished(sh.task)
			}
		}
	}
}

// metrics are the metrics of one shipper.
type metrics struct {
	bytes, parts, failures prometheus.Counter
	finished               prometheus.Counter
	waiting                prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		bytes:    counter("mind_log_archive_bytes_total", "Bytes of logs and metrics written to the archive."),
		parts:    counter("mind_log_archive_parts_total", "Parts of logs and metrics written to the archive."),
		failures: counter("mind_log_archive_failures_total", "Failed writes to the archive, which are retried."),
		finished: counter("mind_log_archive_tasks_total", "Tasks whose output is completely in the archive."),
		waiting:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "mind_log_archive_waiting_tasks", Help: "Ended tasks whose output is not completely in the archive."}),
	}
	reg.MustRegister(m.bytes, m.parts, m.failures, m.finished, m.waiting)
	return m
}
