// Package fitness checks whether a node can start tasks: whether its disk has room for the files of a task, with some to
// spare for the tasks that run, and whether a shim starts.
//
// Contract: Run probes the node until its context ends. Probe probes it at once, for a caller whose launch failed. Why
// returns the result, and Changed has a token when the result has changed.
//
// Guarantees: a node that cannot start tasks is probed until it can, with growing pauses. It counts as fit again only
// with some room to spare, so that it does not change back and forth. Running tasks are left alone.
//
// Not guaranteed: that the next launch succeeds. Its failure leads to another probe.
package fitness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
)

const (
	// interval is the time between probes of a fit node.
	interval = 10 * time.Second
	// firstPause and longestPause limit the time between probes of an unfit one.
	firstPause, longestPause = time.Second, 15 * time.Second
	// leastBytes and leastFiles must be free on a disk for a task: bytes for its specification and the beginning of its
	// log, and files. A small disk needs less: a hundredth of its size.
	leastBytes, leastFiles = 4 << 20, 64
	// probeFolder is the folder in which a probe makes files.
	probeFolder = ".probe"
)

// Config configures a Monitor.
type Config struct {
	// Dirs are the directories in which a task's files are made.
	Dirs []string
	// Keep is the space that must be free on their disks for a new task; the zero value is the default.
	Keep Watermark
	// Start starts and ends a process as a launch does.
	Start func() error
	Log   *slog.Logger
}

// Monitor probes a node.
type Monitor struct {
	cfg     Config
	changed chan struct{}
	poke    chan struct{}

	probing sync.Mutex // one probe at a time

	mu  sync.Mutex
	why string
}

// New returns a Monitor of a node that counts as fit.
func New(cfg Config) *Monitor {
	return &Monitor{cfg: cfg, changed: make(chan struct{}, 1), poke: make(chan struct{}, 1)}
}

// Why returns the reason why the node cannot start tasks; "": it can.
func (m *Monitor) Why() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.why
}

// Changed has a token when Why has changed.
func (m *Monitor) Changed() <-chan struct{} { return m.changed }

// Run probes the node until ctx ends.
func (m *Monitor) Run(ctx context.Context) {
	pauses := wait.Backoff{First: firstPause, Longest: longestPause}
	for {
		pause := interval
		if m.Why() == "" {
			pauses.Reset()
		} else {
			pause = pauses.Next()
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			m.Probe(nil)
		case <-m.poke: // the node became unfit: use the pauses of an unfit node
			timer.Stop()
		}
	}
}

// Probe probes the node at once and returns Why. failed is the error of a failed launch, or nil. An error that only the
// node can cause makes the node unfit even if the probe succeeds.
func (m *Monitor) Probe(failed error) string {
	m.probing.Lock()
	defer m.probing.Unlock()
	was := m.Why()
	why := m.probe(was != "" || failed != nil, was != "")
	if why == "" && failed != nil {
		why = says(failed)
	}
	if why == was {
		return why
	}
	if why == "" {
		m.cfg.Log.Warn("this node can start tasks again", "was", was)
	} else {
		m.cfg.Log.Error("this node cannot start tasks", "why", why)
	}
	m.mu.Lock()
	m.why = why
	m.mu.Unlock()
	for _, signal := range []chan struct{}{m.changed, m.poke} {
		select {
		case signal <- struct{}{}:
		default:
		}
	}
	return why
}

// probe does the steps of a launch without a task, and returns what fails. start: it also starts a process. unfit: more
// space must be free.
func (m *Monitor) probe(start, unfit bool) string {
	for _, dir := range m.cfg.Dirs {
		if why := room(dir, m.cfg.Keep, unfit); why != "" {
			return why
		}
		if err := write(dir); err != nil {
			return says(err)
		}
	}
	if start && m.cfg.Start != nil {
		if err := m.cfg.Start(); err != nil {
			return "it cannot start a process: " + cause(err)
		}
	}
	return ""
}

// write makes a directory with a file, and removes both.
func write(dir string) (err error) {
	folder := filepath.Join(dir, probeFolder)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	file := filepath.Join(folder, "file")
	err = os.WriteFile(file, make([]byte, 64<<10), 0o600)
	if removed := errors.Join(os.Remove(file), os.Remove(folder)); err == nil {
		err = removed
	}
	return err
}

// says explains an error of a probe or a launch.
func says(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return fmt.Sprintf("it cannot %s %s: %v", path.Op, path.Path, path.Err)
	}
	return "it cannot start a task: " + cause(err)
}

// cause explains an error for a process that does not start.
func cause(err error) string {
	if errors.Is(err, syscall.EAGAIN) {
		return err.Error() + " (the limit of processes is reached: pids.max, ulimit -u or kernel.pid_max)"
	}
	return err.Error()
}
