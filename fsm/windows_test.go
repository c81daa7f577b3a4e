package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
)

// maintain arranges a maintenance of n1 in an hour, for an hour.
func (w *world) maintain() windowverbs.WindowResult {
	return do[windowverbs.WindowResult](w, windowverbs.PutWindow{
		Name: "kernel", Kind: windows.Maintenance, Patterns: []string{"n1"}, From: w.now + int64(time.Hour), Until: w.now + int64(2*time.Hour),
		Actor: &access.Actor{Tenant: "acme", User: "olga"},
	})
}

// reserve arranges a reservation of GPUs in an hour, for an hour.
func (w *world) reserve(gpus uint32) windowverbs.WindowResult {
	return do[windowverbs.WindowResult](w, windowverbs.PutWindow{
		Name: "paper", Kind: windows.Reservation, Tenant: "umbrella", GPUs: gpus, From: w.now + int64(time.Hour), Until: w.now + int64(2*time.Hour),
	})
}

// putOn says why a job was not placed on a node.
func (w *world) putOn(job ident.Job, node string) reason.Code {
	r := do[jobverbs.PlaceResult](w, jobverbs.PlaceJobs{Placements: []work.Placement{
		{Job: job, Attempt: w.job(job).Attempt + 1, Tasks: []work.TaskPlacement{{Node: node, GPUs: 1 << 7}}},
	}})
	if len(r.Refused) == 0 {
		return 0
	}
	return r.Refused[0].Reason.Code()
}

func TestWindows_whoIsPlacedBefore(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*jobverbs.NewJob)
		admitted bool
	}{
		"without a limit":   {func(*jobverbs.NewJob) {}, false},
		"ends before":       {func(n *jobverbs.NewJob) { n.MaxRuntime = int64(58 * time.Minute) }, true},
		"has no minute":     {func(n *jobverbs.NewJob) { n.MaxRuntime = int64(59*time.Minute + time.Second) }, false},
		"may be preempted":  {func(n *jobverbs.NewJob) { n.Preemptible = true }, true},
		"never again":       {func(n *jobverbs.NewJob) { n.Preemptible, n.Retry.Never = true, true }, false},
		"limit, and beyond": {func(n *jobverbs.NewJob) { n.MaxRuntime = int64(2 * time.Hour) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			require.Nil(t, w.maintain().Refusal)
			job := w.trySubmit(c.change).Job
			if c.admitted {
				require.Zero(t, w.putOn(job, "n1"))
			} else {
				require.Equal(t, reason.NodeKept, w.putOn(job, "n1"))
			}
		})
	}
}

func TestMaintenance_drainsAndEnables(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	stays := w.trySubmit(func(n *jobverbs.NewJob) { n.Retry.Never = true }).Job
	leaves := w.trySubmit(func(*jobverbs.NewJob) {}).Job
	require.Zero(t, w.putOn(leaves, "n1"))
	w.place(stays, "n1")
	w.run(stays)
	w.run(leaves)
	require.Nil(t, w.maintain().Refusal)
	due, any := w.m.View().NextDue()
	require.True(t, any)
	require.Equal(t, w.now+int64(time.Hour), due)
	w.later(time.Hour)
	w.do(clusterverbs.Tick{})
	n, _ := w.m.View().Node("n1")
	require.Equal(t, v1.NodeState_DRAINING, n.State)
	require.Equal(t, reason.New(reason.UnderMaintenance, "kernel"), n.Reason)
	require.Equal(t, v1.StopReason_DRAIN, w.job(leaves).Stop)
	require.Zero(t, w.job(stays).Stop, "a job that may not be restarted runs to its end")
	w.report(leaves, 0, jobverbs.ReportEnded, exit(75))
	require.Equal(t, v1.JobState_QUEUED, w.job(leaves).State)
	require.NotZero(t, w.putOn(leaves, "n1"))

	w.later(time.Hour)
	w.do(clusterverbs.Tick{})
	n, _ = w.m.View().Node("n1")
	require.Equal(t, v1.NodeState_READY, n.State)
	require.Zero(t, w.m.View().WindowCount())
	require.Zero(t, w.putOn(leaves, "n1"))
}

func TestMaintenance_leavesTheDrainOfAnOperator(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.do(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain, Reason: "broken"})
	require.Nil(t, w.maintain().Refusal)
	w.later(time.Hour)
	w.do(clusterverbs.Tick{})
	require.Nil(t, do[windowverbs.WindowResult](w, windowverbs.DeleteWindow{Name: "kernel", Kind: windows.Maintenance}).Refusal)
	n, _ := w.m.View().Node("n1")
	require.Equal(t, v1.NodeState_DRAINED, n.State)
	require.Equal(t, reason.NoWindow, do[windowverbs.WindowResult](w, windowverbs.DeleteWindow{Name: "kernel", Kind: windows.Maintenance}).Refusal.Reason.Code())
}

func TestReservation_isForItsTenant(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	// n1 runs a job that nobody may stop, so n2 is reserved.
	stays := w.trySubmit(func(*jobverbs.NewJob) {}).Job
	w.place(stays, "n1")
	require.Equal(t, reason.New(reason.TooFewToReserve, 16, 8), w.reserve(16).Refusal.Reason)
	r := w.reserve(5)
	require.Nil(t, r.Refusal)
	require.Equal(t, []string{"n2"}, r.Window.Nodes)
	require.Equal(t, reason.WindowThere, w.reserve(1).Refusal.Reason.Code())

	yields := w.trySubmit(func(n *jobverbs.NewJob) { n.Preemptible = true }).Job
	require.Zero(t, w.putOn(yields, "n2"))
	w.run(yields)
	other := w.trySubmit(func(*jobverbs.NewJob) {}).Job
	own := w.trySubmit(func(n *jobverbs.NewJob) { n.Tenant = "umbrella" }).Job
	require.Equal(t, "umbrella", w.m.View().ClassOf(w.job(own)).Tenant, "a class of its own, so that the planner sees whose it is")
	require.Empty(t, w.m.View().ClassOf(w.job(other)).Tenant)
	w.later(time.Hour)
	w.do(clusterverbs.Tick{})
	require.Equal(t, v1.StopReason_PREEMPT, w.job(yields).Stop)
	w.report(yields, 0, jobverbs.ReportEnded, exit(75))
	require.Equal(t, reason.NodeKept, w.putOn(yields, "n2"))
	require.Equal(t, reason.NodeKept, w.putOn(other, "n2"))
	require.Zero(t, w.putOn(own, "n2"))
	w.later(time.Hour)
	w.do(clusterverbs.Tick{})
	require.True(t, w.job(own).Live(), "what runs goes on")
	require.Zero(t, w.putOn(other, "n1"))
}

func TestWindows_refusals(t *testing.T) {
	hour := int64(time.Hour)
	for name, c := range map[string]struct {
		put  windowverbs.PutWindow
		want reason.Code
	}{
		"no kind":           {windowverbs.PutWindow{Name: "a", From: 0, Until: hour}, reason.BadWindow},
		"no name":           {windowverbs.PutWindow{Kind: windows.Maintenance, Patterns: []string{"n1"}, Until: hour}, reason.BadWindow},
		"over before":       {windowverbs.PutWindow{Name: "a", Kind: windows.Maintenance, Patterns: []string{"n1"}, From: -hour, Until: -1}, reason.BadWindow},
		"in two years":      {windowverbs.PutWindow{Name: "a", Kind: windows.Maintenance, Patterns: []string{"n1"}, Until: 24 * 700 * hour}, reason.BadWindow},
		"bad pattern":       {windowverbs.PutWindow{Name: "a", Kind: windows.Maintenance, Patterns: []string{"[n"}, Until: hour}, reason.BadWindow},
		"for nobody":        {windowverbs.PutWindow{Name: "a", Kind: windows.Reservation, GPUs: 1, Until: hour}, reason.BadWindow},
		"of nothing":        {windowverbs.PutWindow{Name: "a", Kind: windows.Reservation, Tenant: "acme", Until: hour}, reason.BadWindow},
		"no such node":      {windowverbs.PutWindow{Name: "a", Kind: windows.Maintenance, Patterns: []string{"x*"}, Until: hour}, reason.NoNodeMatches},
		"no such GPU":       {windowverbs.PutWindow{Name: "a", Kind: windows.Reservation, Tenant: "acme", GPUs: 1, GPUType: "A100", Until: hour}, reason.TooFewToReserve},
		"in another window": {windowverbs.PutWindow{Name: "a", Kind: windows.Maintenance, Patterns: []string{"n?"}, From: hour, Until: 2 * hour}, reason.WindowsMeet},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			require.Nil(t, w.maintain().Refusal)
			before := w.m.View().Hash()
			c.put.From += w.now
			c.put.Until += w.now
			require.Equal(t, c.want, do[windowverbs.WindowResult](w, c.put).Refusal.Reason.Code())
			require.Equal(t, 1, w.m.View().WindowCount())
			require.NotZero(t, before)
		})
	}
}

// TestWindows_checkCanFail breaks what I15 says.
func TestWindows_checkCanFail(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(w *world)
		says   string
	}{
		"a node twice": {func(w *world) {
			old, _ := w.m.View().Window("kernel")
			two := *old
			two.Name = "other"
			w.tables().PutWindow(&two)
		}, `I15: node n1 is in the windows "kernel" and "other" at the same time`},
		"placed where it is kept off": {func(w *world) {
			job := w.trySubmit(func(n *jobverbs.NewJob) { n.Preemptible = true }).Job
			require.Zero(w.t, w.putOn(job, "n1"))
			old, _ := w.tables().Job(job)
			j := *old
			j.Preemptible = false
			w.tables().PutJob(old, &j)
		}, "which the window \"kernel\" keeps from it"},
		"no nodes": {func(w *world) {
			old, _ := w.m.View().Window("kernel")
			none := *old
			none.Nodes = nil
			w.tables().PutWindow(&none)
		}, "I15: the window \"kernel\" lasts"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			require.Nil(t, w.maintain().Refusal)
			c.breaks(w)
			found := fsm.Check(w.publish())
			require.NotEmpty(t, found)
			require.Contains(t, found[0], c.says)
		})
	}
}

// arrange draws a command about windows.
func (g *generator) arrange() kernel.Command {
	kind := pick(g, "kind of window", windows.Maintenance, windows.Reservation)
	name := pick(g, "window", "w1", "w2")
	if g.n("delete window", 0, 3) == 0 {
		return windowverbs.DeleteWindow{Name: name, Kind: kind, Actor: g.actor()}
	}
	from := g.w.now + int64(pick(g, "in", -1, 0, 60, 300))*1e9
	c := windowverbs.PutWindow{Name: name, Kind: kind, From: from, Until: from + int64(pick(g, "lasts", 10, 100))*1e9, Actor: g.actor()}
	if kind == windows.Maintenance {
		c.Patterns = []string{pick(g, "nodes", "n1", "n[23]", "*", "x")}
	} else {
		c.Tenant, c.GPUs = g.tenant(), uint32(g.n("GPUs", 1, 6))
	}
	return c
}
