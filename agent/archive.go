package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mindcoordinator/mind/agent/checkpoints"
	"github.com/mindcoordinator/mind/agent/logship"
	"github.com/mindcoordinator/mind/agent/series"
	"github.com/mindcoordinator/mind/agent/shim"
	format "github.com/mindcoordinator/mind/api/series"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/tasks"
)

// LogArchive configures where logs and metrics of tasks are shipped to. The zero value means that they stay on the node
// only.
type LogArchive struct {
	// URL of the archive, as package archive takes it.
	URL string
	// Access to a bucket; the zero value: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
	Access archive.Access
	// Flush is the age at which lines are shipped before their segment is full; 0: 30 s, negative: only when the segment is
	// full or the task has ended.
	Flush time.Duration
	// Rate limits the upload in bytes per second; 0: no limit.
	Rate int64
	// Wait limits how long the directory of an ended task is kept, beyond KeepTasks and KeepTasksFor, until the archive has
	// all of it; 0: 24 h.
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

// CheckpointArchive configures where checkpoints are uploaded to and fetched from. The zero value means that they stay
// on the node only.
type CheckpointArchive struct {
	// URL of the archive, as package archive takes it.
	URL string
	// Access to a bucket; the zero value: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
	Access archive.Access
	// Rate limits the upload in bytes per second; 0: no limit.
	Rate int64
}

func (c CheckpointArchive) validate() error {
	if c.URL == "" {
		return nil
	}
	var faults []error
	if err := archive.Check(c.URL); err != nil {
		faults = append(faults, fmt.Errorf("checkpoint archive: %w", err))
	}
	if c.Rate < 0 {
		faults = append(faults, errors.New("checkpoint archive: its rate is negative"))
	}
	return errors.Join(faults...)
}

// openCheckpoints opens the archive of checkpoints, if one is configured, and prepares the parts that use it.
func (a *agent) openCheckpoints() error {
	cfg := &a.cfg.CheckpointArchive
	if cfg.URL != "" {
		store, err := archive.Open(cfg.URL, cfg.Access)
		if err != nil {
			return fmt.Errorf("checkpoint archive: %w", err)
		}
		a.cfg.Data.Archive = store
	}
	a.cfg.Data.Archives = []string{cfg.URL, a.cfg.LogArchive.URL}
	a.checkpoints = checkpoints.New(checkpoints.Config{
		As:    a.as(),
		Store: a.cfg.Data.Archive, DataDir: a.cfg.DataDir, Private: a.private, Outputs: a.outputs, Outbox: a.outbox, Rate: cfg.Rate, Log: a.log, Metrics: a.cfg.Metrics,
	})
	return nil
}

// openArchive makes the shipper, if an archive is configured.
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
	a.shipper = logship.New(logship.Config{
		Store: store, Node: a.cfg.NodeID, Tasks: func() []logship.Task { return a.tasks.ToShip() }, LogDir: shim.LogDir, MetricsFile: shim.MetricsFile, MetricsBytes: a.cfg.MetricsBytes,
		SeriesFile: series.File, SeriesBytes: format.MaxFile,
		Flush: cfg.Flush, Rate: cfg.Rate, Log: a.log, Metrics: a.cfg.Metrics, Finished: func(tasks.Task) { a.tasks.Shipped() },
	})
	return nil
}

// ship runs the shipper, if there is one.
func (a *agent) ship(ctx context.Context) {
	if a.shipper != nil {
		a.shipper.Run(ctx)
	}
}
