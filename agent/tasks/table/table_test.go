package table

import (
	"fmt"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// node implements all interfaces that a Table needs, and records the calls.
type node struct {
	*Table
	t       *testing.T
	done    []string
	tasks   map[taskid.ID]*Task
	reports []*outbox.Report
	forbids string // the reason why no task may be launched
	fault   map[int32]string
	fetches bool
	removes bool
}

func newNode(t *testing.T) *node {
	n := &node{t: t, tasks: make(map[taskid.ID]*Task), fault: make(map[int32]string), removes: true}
	n.Table = New(Config{
		Node: "n1", MaxLaunches: 2, KeepTasks: 0, KeepTasksFor: time.Hour,
		Work: n, Outbox: (*letters)(n), Leases: n, GPUs: (*cards)(n), Notes: n, Log: slog.New(slog.DiscardHandler),
	})
	n.Adopt(nil, start)
	return n
}

var start = time.Unix(1000, 0)

func (n *node) note(what string, t *Task) {
	n.tasks[t.ID] = t
	n.done = append(n.done, what+" "+t.ID.Job)
}

// did returns the recorded calls since the last call of did.
func (n *node) did() []string {
	done := n.done
	n.done = nil
	return done
}

func (n *node) Fetch(t *Task, _ *v1.TaskSpec) (func(), bool) {
	if !n.fetches {
		return nil, false
	}
	n.note("fetch", t)
	return func() { n.note("cancel fetch", t) }, true
}

func (n *node) Launch(t *Task, _ *v1.TaskSpec, inputs any) {
	n.note(strings.TrimSpace(fmt.Sprint("launch ", inputs)), t)
}
func (n *node) Attach(t *Task) { n.note("attach", t) }
func (n *node) Stop(t *Task, _ Process, r shim.StopRequest) {
	n.note(fmt.Sprint("stop ", r.Notice+r.Term), t)
}
func (n *node) Refuse(t *Task, _ shim.Exit)   { n.note("refuse", t) }
func (n *node) Disown(t *Task)                { n.note("disown", t) }
func (n *node) Fault(t *Task, _ string)       { n.note("fault", t) }
func (n *node) Recall(t *Task)                { n.note("recall", t) }
func (n *node) OnAcknowledged(t *Task) func() { return func() { n.Forget(t, start) } }

func (n *node) Release(id taskid.ID)                           { n.done = append(n.done, "release "+id.Job) }
func (n *node) MayRemove(taskid.ID, time.Time, time.Time) bool { return n.removes }
func (n *node) Remove(ids []taskid.ID) {
	for _, id := range ids {
		n.done = append(n.done, "remove "+id.Job)
	}
}

func (n *node) Restart()                                         { n.done = append(n.done, "restart") }
func (n *node) Idle()                                            { n.done = append(n.done, "idle") }
func (n *node) Want(taskid.ID, *v1.TaskSpec)                     {}
func (n *node) Drop(taskid.ID)                                   {}
func (n *node) Looked()                                          {}
func (n *node) Launched(time.Duration)                           {}
func (n *node) Ended(string)                                     {}
func (n *node) MayLaunch(taskid.ID, *v1.TaskSpec) (bool, string) { return n.forbids == "", n.forbids }

// cards are the node's GPUs.
type cards node

func (c *cards) Enabled(uint64) {}

func (c *cards) Fault(gpus []int32, _, _ time.Time) string {
	for _, gpu := range gpus {
		if why := c.fault[gpu]; why != "" {
			return why
		}
	}
	return ""
}

// letters are the node's outbox.
type letters node

func (l *letters) Add(reports ...*outbox.Report) { l.reports = append(l.reports, reports...) }
func (l *letters) Drop(task *v1.TaskRef) {
	l.reports = slices.DeleteFunc(l.reports, func(r *outbox.Report) bool { return r.Body.GetTask().GetJobId() == task.GetJobId() })
}

// kinds lists the kinds of the reports.
func (n *node) kinds() (kinds []string) {
	for _, r := range n.reports {
		kinds = append(kinds, strings.TrimPrefix(fmt.Sprintf("%T", r.Body.GetBody()), "*scaimindv1.Report_")+" "+r.Body.GetTask().GetJobId())
	}
	n.reports = nil
	return kinds
}

type process struct{}

func (process) Stop(shim.StopRequest) error { return nil }

func order(job string, gpus ...int32) *v1.TaskOrder {
	return &v1.TaskOrder{Task: &v1.TaskRef{JobId: job, Attempt: 1, Token: 7}, Spec: &v1.TaskSpec{Gpus: gpus}}
}

func (n *node) order(orders ...*v1.TaskOrder) []string {
	n.Reconcile(&v1.Orders{Tasks: orders}, start)
	return n.did()
}

func (n *node) task(job string) *Task {
	t := n.tasks[taskid.ID{Job: job, Attempt: 1, Token: 7}]
	require.NotNil(n.t, t)
	return t
}

// run takes a launched task to the state in which its process runs.
func (n *node) run(job string) *Task {
	t := n.task(job)
	require.True(n.t, n.StillDue(t, nil))
	n.Attached(t, process{})
	n.Runs(t, 42, start)
	return t
}

func TestAnOrderBecomesAProcessAndAReport(t *testing.T) {
	n := newNode(t)
	require.Equal(t, []string{"launch <nil> a"}, n.order(order("a")))
	require.Empty(t, n.order(order("a")), "the same orders change nothing")
	a := n.run("a")
	require.Equal(t, []string{"Starting a", "Running a"}, n.kinds())
	n.Ends(a, shim.Exit{Ended: start.UnixNano()})
	require.Equal(t, []string{"release a"}, n.did())
	require.Len(t, n.reports, 1)
	acked := n.reports[0].Acked
	require.Equal(t, []string{"Ended a"}, n.kinds())
	require.Len(t, n.Unacknowledged(), 1)
	acked()
	require.Empty(t, n.Unacknowledged())
	require.Equal(t, []string{"recall a"}, n.order(order("a")), "the coordinators knew, and do not any more")
	n.Recalled(a, shim.Exit{})
	require.Equal(t, []string{"Ended a"}, n.kinds())
}

func TestATaskThatIsNotWantedIsStoppedAfterThatIsOnDisk(t *testing.T) {
	n := newNode(t)
	n.order(order("a"), order("b"))
	a := n.run("a")
	n.kinds()
	require.Equal(t, []string{"disown a", "disown b"}, n.order())
	n.Report(a, &outbox.Report{Body: &v1.Report{Task: a.ID.Ref()}})
	require.Empty(t, n.reports, "not a word of it")
	n.Disowned(a)
	require.Equal(t, []string{"stop 10s a"}, n.did())
	b := n.task("b")
	require.False(t, n.StillDue(b, nil), "it was not launched yet")
	require.Equal(t, []string{"refuse b"}, n.did())
	n.Disowned(b)
	require.Empty(t, n.did())
	n.Ends(a, shim.Exit{})
	require.Equal(t, []string{"Ended a"}, n.kinds(), "but its end")
	// The shim may be attached while that is being written.
	n.order(order("c"))
	n.order()
	c := n.task("c")
	n.Attached(c, process{})
	require.Empty(t, n.did())
	n.Disowned(c)
	require.Equal(t, []string{"stop 10s c"}, n.did())
}

func TestOnlyALaterStopThatEndsSoonerIsNews(t *testing.T) {
	n := newNode(t)
	n.order(order("a"))
	n.run("a")
	stop := func(reason v1.StopReason_Value, grace int32) []string {
		o := order("a")
		o.Stop, o.GracePeriodSeconds = reason, grace
		return n.order(o)
	}
	require.Equal(t, []string{"stop 40s a"}, stop(v1.StopReason_PAUSE, 30))
	require.Empty(t, stop(v1.StopReason_PAUSE, 30))
	require.Equal(t, []string{"stop 5s a"}, stop(v1.StopReason_CANCEL, 5))
	require.Empty(t, stop(v1.StopReason_CANCEL, 5))
}

func TestTasksWaitForTheLeaveForTheirGPUsAndForTheirTurn(t *testing.T) {
	n := newNode(t)
	n.forbids = "no session"
	require.Empty(t, n.order(order("a", 0), order("b", 0), order("c", 1), order("d", 2)))
	n.forbids = ""
	n.LaunchNext()
	require.Equal(t, []string{"launch <nil> a", "launch <nil> c"}, n.did(), "b waits for a's GPU, d for its turn")
	n.run("a")
	require.Equal(t, []string{"launch <nil> d"}, n.did())
	// The permission to launch may end while a GPU is verified.
	n.forbids = "no session"
	require.False(t, n.StillDue(n.task("c"), nil))
	n.forbids = ""
	n.LaunchNext()
	require.Equal(t, []string{"launch <nil> c"}, n.did())
	n.Ends(n.task("a"), shim.Exit{})
	require.Equal(t, []string{"release a"}, n.did(), "two are being launched")
	n.run("c")
	require.Equal(t, []string{"launch <nil> b"}, n.did())
}

func TestInputsAreFetchedBeforeALaunch(t *testing.T) {
	n := newNode(t)
	n.fetches = true
	require.Equal(t, []string{"fetch a", "fetch b", "fetch c"}, n.order(order("a"), order("b"), order("c")))
	n.Fetched(n.task("a"), "data", nil)
	require.Equal(t, []string{"launch data a"}, n.did())
	n.Fetched(n.task("b"), nil, &shim.Exit{Failure: "DATA_FETCH"})
	require.Equal(t, []string{"refuse b"}, n.did())
	stopped := order("c")
	stopped.Stop = v1.StopReason_CANCEL
	require.Equal(t, []string{"cancel fetch c", "refuse c"}, n.order(order("a"), order("b"), stopped))
	n.Fetched(n.task("c"), nil, &shim.Exit{})
	require.Equal(t, []string{"release c"}, n.did(), "it has ended")
}

func TestWhatAnEarlierAgentLeft(t *testing.T) {
	n := newNode(t)
	id := func(job string) taskid.ID { return taskid.ID{Job: job, Attempt: 1, Token: 7} }
	n.removes = false
	n.Adopt([]Left{{ID: id("runs")}, {ID: id("unwanted"), Disowned: true}, {ID: id("over"), Ended: true, EndedAt: start}, {ID: id("unbegun")}}, start)
	require.Equal(t, []string{"attach runs", "attach unwanted", "attach unbegun"}, n.did())
	require.Len(t, n.Unacknowledged(), 3)
	n.Attached(n.task("unwanted"), process{})
	require.Equal(t, []string{"stop 10s unwanted"}, n.did())
	n.order(order("runs"), order("unbegun"))
	n.Again(n.task("unbegun"))
	require.Equal(t, []string{"launch <nil> unbegun"}, n.did())
	require.Zero(t, n.Live()-3)
	// Directories of ended tasks are removed, unless MayRemove refuses it.
	n.removes = true
	n.sweep(start)
	require.Equal(t, []string{"remove over"}, n.did())
	_, known := n.Get(id("over"))
	require.False(t, known)
	n.StopAll(time.Second)
	require.Equal(t, []string{"stop 1s unwanted"}, n.did())
	for _, job := range []string{"runs", "unwanted", "unbegun"} {
		n.Ends(n.task(job), shim.Exit{})
	}
	require.Equal(t, []string{"release runs", "release unwanted", "release unbegun", "idle"}, n.did())
}

func TestATaskWhoseGPUFailedIsStoppedAfterThatIsOnDisk(t *testing.T) {
	n := newNode(t)
	n.order(order("a", 0), order("b", 1), order("c", 0))
	n.run("a")
	n.did()
	n.fault[0] = "Xid 79"
	n.EndFaulty()
	require.Equal(t, []string{"fault a", "refuse c"}, n.did(), "one that waits is given back")
	n.EndFaulty()
	require.Empty(t, n.did(), "once")
}

// Simulations drive a Table, and it runs on the goroutine that owns the tasks: it must not read a clock, write a file,
// take a lock or start a goroutine.
func TestTheTableIsPure(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, bad := range []string{"time.Now", "time.Since", "time.After", "time.NewTimer", "time.NewTicker", "time.Sleep", "go func", "<-", "rand."} {
			require.NotContains(t, string(text), bad, file)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
		require.NoError(t, err)
		for _, i := range parsed.Imports {
			require.NotContains(t, []string{`"os"`, `"io"`, `"net"`, `"sync"`, `"sync/atomic"`, `"context"`, `"github.com/mindcoordinator/mind/agent/tasks/owner"`}, i.Path.Value, file)
		}
	}
}
