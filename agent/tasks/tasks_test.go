package tasks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/device"
	"github.com/mindcoordinator/mind/agent/gpus"
	"github.com/mindcoordinator/mind/agent/inputs"
	"github.com/mindcoordinator/mind/agent/launch"
	"github.com/mindcoordinator/mind/agent/leader"
	"github.com/mindcoordinator/mind/agent/lease"
	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/outputs"
	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/series"
	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// hanging are Processes whose shims do not accept requests to stop until the test allows it.
type hanging struct {
	let     chan struct{}
	asked   chan string
	mu      sync.Mutex
	started map[string]*hangingProcess
}

type hangingProcess struct {
	dir    string
	of     *hanging
	events chan runner.Event
	once   sync.Once
}

func (h *hanging) Start(dir string, _ shim.Spec, _ func(string) error) (Process, error) {
	p := &hangingProcess{dir: dir, of: h, events: make(chan runner.Event, 3)}
	p.events <- runner.Event{Running: true, Pid: 1, Time: time.Now().UnixNano()}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started[filepath.Base(dir)] = p
	return p, nil
}
func (h *hanging) Attach(string) (Process, error) { return nil, runner.ErrNotBegun }
func (h *hanging) Gone(string) bool               { return true }
func (h *hanging) Close()                         {}

func (p *hangingProcess) Events() <-chan runner.Event { return p.events }
func (p *hangingProcess) Stop(shim.StopRequest) error {
	p.of.asked <- filepath.Base(p.dir)
	<-p.of.let
	p.once.Do(func() { p.events <- runner.Event{Exit: &shim.Exit{Stopped: true, Ended: time.Now().UnixNano()}} })
	return nil
}
func (p *hangingProcess) SetDeadline(shim.Deadline) error { return nil }
func (p *hangingProcess) Remark(string) error             { return nil }
func (p *hangingProcess) Close()                          {}

func newTasks(t *testing.T, processes Processes) (*Tasks, *outbox.Outbox) {
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	monitor, err := gpus.New(gpus.Config{Inventory: device.None{}, Log: log})
	require.NoError(t, err)
	dirs := outputs.New(dir)
	in, err := inputs.Open(inputs.Config{}, "n1", dir, dirs.Tenant, log)
	require.NoError(t, err)
	box := outbox.New(0)
	ts := New(Config{
		Series: series.NewBook(log),
		Node:   "n1", Dir: filepath.Join(dir, "tasks"), MaxLaunches: 4, KeepTasks: 10, KeepTasksFor: time.Hour, Simulated: true,
		Processes: processes, GPUs: monitor, Outbox: box, Inputs: in, Outputs: dirs, Log: log,
		Leases:   leader.NewLeases("n1", lease.Timing{}, 0, shim.Boottime, log),
		Launcher: &launch.Launcher{Node: "n1", Visible: monitor.Visible, Outputs: dirs, Log: log},
		Restart:  func() {}, Metrics: prometheus.NewRegistry(),
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		ts.Run(t.Context())
	}()
	t.Cleanup(func() { <-done })
	return ts, box
}

func orders(jobs ...string) *v1.Orders {
	o := &v1.Orders{}
	for _, job := range jobs {
		o.Tasks = append(o.Tasks, &v1.TaskOrder{
			Task: &v1.TaskRef{JobId: job, Attempt: 1, Token: 7},
			Spec: &v1.TaskSpec{Job: &v1.SubmitJobRequest{CommandConfig: &v1.CommandConfig{Argv: []string{"true"}}}},
		})
	}
	return o
}

// A hanging shim or disk delays its own task only.
func TestTheOwnerWaitsForNoShim(t *testing.T) {
	h := &hanging{let: make(chan struct{}), asked: make(chan string, 10), started: make(map[string]*hangingProcess)}
	ts, _ := newTasks(t, h)
	defer ts.Close()
	ts.Reconcile(t.Context(), orders("a"))
	running := func(job string) func() bool {
		return func() bool {
			jobs, ok := ts.LiveJobs()
			h.mu.Lock()
			defer h.mu.Unlock()
			return ok && jobs[job] && h.started[job+".1.0.7"] != nil
		}
	}
	require.Eventually(t, running("a"), 30*time.Second, time.Millisecond)
	stop := orders("a")
	stop.Tasks[0].Stop = v1.StopReason_CANCEL
	ts.Reconcile(t.Context(), stop)
	require.Equal(t, "a.1.0.7", <-h.asked)
	// While the shim hangs, another task is launched, and its output is served.
	stop.Tasks = append(stop.Tasks, orders("b").Tasks...)
	ts.Reconcile(t.Context(), stop)
	require.Eventually(t, running("b"), 30*time.Second, time.Millisecond)
	require.Len(t, ts.Unacknowledged(), 2)
	close(h.let)
	require.Eventually(t, func() bool { jobs, _ := ts.LiveJobs(); return !jobs["a"] && jobs["b"] }, 30*time.Second, time.Millisecond)
}

// Functions that run on the goroutine that owns the tasks must not wait for that goroutine. The table has no door, so
// it cannot; this test checks the functions that are passed to the goroutine.
func TestNothingThatRunsOnTheOwnerWaitsForIt(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	looked := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncLit)
			if !ok || len(f.Type.Params.List) != 1 || !onTable(f.Type.Params.List[0].Type) {
				return true
			}
			looked++
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if s, ok := call.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Ask" || s.Sel.Name == "Tell") {
						require.Failf(t, "the owner would wait for itself", "%s", set.Position(call.Pos()))
					}
				}
				return true
			})
			return false
		})
	}
	require.Greater(t, looked, 15)
}

// onTable reports whether a parameter is *table.Table.
func onTable(e ast.Expr) bool {
	star, ok := e.(*ast.StarExpr)
	if !ok {
		return false
	}
	s, ok := star.X.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Table"
}
