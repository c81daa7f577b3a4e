package logship

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/tasklog"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/tasks"
)

// flaky is a real store that can be made to fail, and counts the objects.
type flaky struct {
	archive.Store
	mu     sync.Mutex
	broken bool
	parts  int
	bytes  int64
}

func (f *flaky) Put(ctx context.Context, key string, body io.Reader, size int64) error {
	f.mu.Lock()
	broken := f.broken
	if !broken && strings.HasPrefix(key, "parts/") {
		f.parts++
		f.bytes += size
	}
	f.mu.Unlock()
	if broken {
		return errors.New("the store is down")
	}
	return f.Store.Put(ctx, key, body, size)
}

func (f *flaky) set(broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = broken
}

// node is a node with one writing task and its shipper.
type node struct {
	t     *testing.T
	store *flaky
	dir   string
	task  tasks.Task
	cfg   Config

	mu      sync.Mutex
	ended   bool
	gone    bool
	shipper *Shipper
	stop    func()
}

func newNode(t *testing.T, change func(*Config)) *node {
	store, err := archive.Open("file://"+t.TempDir(), archive.Access{})
	require.NoError(t, err)
	n := &node{t: t, store: &flaky{Store: store}, dir: t.TempDir(), task: tasks.Task{Job: "job_1", Attempt: 2, Rank: 3, Token: 44}}
	n.cfg = Config{Store: n.store, Node: "n1", LogDir: ".", MetricsFile: "metrics.jsonl", Log: slog.New(slog.DiscardHandler)}
	n.cfg.Tasks = func() []Task {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.gone {
			return nil
		}
		return []Task{{Task: n.task, Dir: n.dir, Ended: n.ended}}
	}
	if change != nil {
		change(&n.cfg)
	}
	return n
}

// start starts a new shipper, as the next agent does.
func (n *node) start() {
	n.cfg.Metrics = prometheus.NewRegistry()
	n.shipper = New(n.cfg)
	ctx, cancel := context.WithCancel(n.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.shipper.Run(ctx)
	}()
	n.stop = func() {
		cancel()
		<-done
	}
}

func (n *node) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
}

// manifest returns the manifest in the archive, or nil.
func (n *node) manifest() *tasks.Manifest {
	m, err := tasks.Find(n.t.Context(), n.store, n.task.Job, n.task.Attempt, n.task.Rank)
	if errors.Is(err, archive.ErrNotFound) {
		return nil
	}
	require.NoError(n.t, err)
	return m
}

func (n *node) archived(from uint64) (lines []string, end uint64) {
	r := tasks.NewLogReader(n.store, n.manifest())
	require.NoError(n.t, r.SeekOffset(n.t.Context(), from))
	for {
		entries, err := r.Next(n.t.Context(), 100)
		require.NoError(n.t, err)
		if len(entries) == 0 {
			return lines, r.Offset()
		}
		for _, e := range entries {
			lines = append(lines, e.Text)
		}
	}
}

// kept reads the log from the node.
func (n *node) kept() (entries []tasklog.Entry) {
	r := tasklog.NewReader(n.dir)
	defer r.Close()
	for {
		next, err := r.Next(100)
		require.NoError(n.t, err)
		if len(next) == 0 {
			return entries
		}
		entries = append(entries, next...)
	}
}

func numbered(from, to int, pad int) (lines []string) {
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprintf("line %06d %s", i, strings.Repeat("x", pad)))
	}
	return lines
}

func write(w *tasklog.Writer, lines []string) {
	s := w.Stream(tasklog.Stdout)
	for _, line := range lines {
		s.Write(time.Now(), []byte(line+"\n"))
	}
}
