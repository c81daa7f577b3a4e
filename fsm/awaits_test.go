package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// lostOn is a job of which an attempt was lost with n1, and the task that may still be alive there.
func lostOn(t require.TestingT, change ...func(*jobverbs.NewJob)) (*world, ident.Job, work.TaskRef) {
	w := cluster(t)
	n := retried(oneGPU(), 3)
	for _, f := range change {
		f(&n)
	}
	id := w.submit(n)
	w.place(id, "n1")
	w.run(id)
	ref := work.TaskRef{Job: id, Attempt: 1, Token: w.job(id).Token}
	w.away("n1")
	require.Equal(t, 1, w.lose("n1", "n2").Lost)
	return w, id, ref
}

func TestAwaits_endWhenTheTaskIsKnownToBeGone(t *testing.T) {
	other := testNode("n2", "boot9", 8)
	tests := map[string]struct {
		command func(ref work.TaskRef) kernel.Command
		goes    bool
	}{
		"its node was restarted": {func(work.TaskRef) kernel.Command { return nodeverbs.RegisterNode{Node: testNode("n1", "boot2", 8)} }, true},
		"its node was restarted and lists it": {func(ref work.TaskRef) kernel.Command {
			return nodeverbs.RegisterNode{Node: testNode("n1", "boot2", 8), Tasks: []work.TaskRef{ref}}
		}, true},
		"its node is back without it": {func(work.TaskRef) kernel.Command { return nodeverbs.RegisterNode{Node: testNode("n1", "boot1", 8)} }, true},
		"its node is back with another task": {func(ref work.TaskRef) kernel.Command {
			ref.Attempt++
			return nodeverbs.RegisterNode{Node: testNode("n1", "boot1", 8), Tasks: []work.TaskRef{ref}}
		}, true},
		"its node is back with it": {func(ref work.TaskRef) kernel.Command {
			return nodeverbs.RegisterNode{Node: testNode("n1", "boot1", 8), Tasks: []work.TaskRef{{Job: 9}, ref}}
		}, false},
		"its node was forgotten":              {func(work.TaskRef) kernel.Command { return nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeForget} }, true},
		"another node was restarted":          {func(work.TaskRef) kernel.Command { return nodeverbs.RegisterNode{Node: other} }, false},
		"another node was forgotten":          {func(work.TaskRef) kernel.Command { return nodeverbs.SetNode{ID: "n2", Action: nodeverbs.NodeForget} }, false},
		"its node can be reached, it is said": {func(work.TaskRef) kernel.Command { return nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeReachable} }, false},
		"it says that it has ended":           {func(ref work.TaskRef) kernel.Command { return says("n1", ref, jobverbs.ReportEnded) }, true},
		"it says that it runs":                {func(ref work.TaskRef) kernel.Command { return says("n1", ref, jobverbs.ReportRunning) }, false},
		"another node says that it has ended": {func(ref work.TaskRef) kernel.Command { return says("n2", ref, jobverbs.ReportEnded) }, false},
		"another rank has ended": {func(ref work.TaskRef) kernel.Command {
			ref.Rank++
			return says("n1", ref, jobverbs.ReportEnded)
		}, false},
		"under another token": {func(ref work.TaskRef) kernel.Command {
			ref.Token++
			return says("n1", ref, jobverbs.ReportEnded)
		}, false},
		"time passes": {func(work.TaskRef) kernel.Command { return clusterverbs.Tick{Settled: true} }, false},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			for state, prepare := range map[string]func(w *world, id ident.Job){
				"while it waits":        func(*world, ident.Job) {},
				"while it runs again":   func(w *world, id ident.Job) { w.place(id, "n3") },
				"while it is paused":    func(w *world, id ident.Job) { w.do(jobverbs.ControlJob{Job: id, Action: work.ActionPause}) },
				"after it was canceled": func(w *world, id ident.Job) { w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel}) },
			} {
				w, id, ref := lostOn(t)
				prepare(w, id)
				require.Equal(t, []ident.Job{id}, w.m.View().AwaitedOn("n1"))
				w.do(c.command(ref))
				require.Equal(t, !c.goes, w.job(id).Replacement(), state)
				require.Equal(t, c.goes, len(w.m.View().AwaitedOn("n1")) == 0, state)
			}
		})
	}
}

func says(node string, ref work.TaskRef, kind jobverbs.ReportKind) jobverbs.ReportTasks {
	return jobverbs.ReportTasks{Node: node, Reports: []jobverbs.TaskReport{{Job: ref.Job, Attempt: ref.Attempt, Rank: ref.Rank, Token: ref.Token, Kind: kind}}}
}

func TestAwaits_limitWhereTheNextAttemptGoes(t *testing.T) {
	w, id, ref := lostOn(t)
	w.node("n5", 8)
	w.ack()
	refused := func(node, why string) {
		r := do[jobverbs.PlaceResult](w, jobverbs.PlaceJobs{Placements: []work.Placement{w.placement(id, node)}})
		require.Len(t, r.Refused, 1)
		require.Contains(t, words.Of(r.Refused[0].Reason), why)
		require.Zero(t, w.m.View().LeaseCount())
	}
	refused("n5", "node n5 may not replace node n1, which may still run attempt 1 of job")
	w.do(nodeverbs.RegisterNode{Node: testNode("n1", "boot1", 8), Tasks: []work.TaskRef{ref}})
	refused("n1", "may not replace")
	w.away("n2")
	w.setNode(nodeverbs.SetNode{ID: "n2", Action: nodeverbs.NodeReachable})
	refused("n2", "may not replace")
	// Others are not held to it.
	w.place(w.submit(oneGPU()), "n5")
	w.place(w.submit(oneGPU()), "n1")

	require.Equal(t, work.ClassKey{Queue: "default", Shape: w.job(id).Shape, Own: id}, w.job(id).Class())
	r := do[jobverbs.ReportResult](w, says("n1", ref, jobverbs.ReportEnded))
	require.Equal(t, jobverbs.ReportResult{Stale: 1}, r, "what it says of itself is not believed: the attempt is over")
	require.EqualValues(t, 1, w.m.View().Fenced())
	require.False(t, w.job(id).Replacement())
	w.place(id, "n5")
	require.False(t, w.job(id).Replacement())
}

// The roster that counts is the one that the lost node has on disk, not the one of the moment of the declaration: it asks nobody who
// joined in between before it lets its task run on.
func TestAwaits_nobodyWhoJoinedAfterTheLostNodeLastHeard(t *testing.T) {
	w := newWorld(t)
	w.voters("c1", "c2", "c3")
	w.node("n1", 8)
	w.node("n2", 8)
	w.ack()
	kept := w.row("n1").RosterAcked
	id := w.submit(retried(oneGPU(), 3))
	w.place(id, "n1")
	w.run(id)
	w.node("n3", 8)
	w.away("n1")
	require.Equal(t, 1, w.lose("n1", "n2").Lost)
	require.Equal(t, kept, w.job(id).Awaits[0].Roster)
	r := do[jobverbs.PlaceResult](w, jobverbs.PlaceJobs{Placements: []work.Placement{w.placement(id, "n3")}})
	require.Len(t, r.Refused, 1)
	require.Contains(t, words.Of(r.Refused[0].Reason), "node n3 may not replace node n1")
	w.place(id, "n2")
}

func TestAwaits_outliveTheJobsEndForWhoRetriesIt(t *testing.T) {
	for name, end := range map[string]func(w *world, id ident.Job){
		"canceled": func(w *world, id ident.Job) { w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel}) },
		"failed": func(w *world, id ident.Job) {
			w.place(id, "n3")
			w.report(id, 0, jobverbs.ReportEnded, exit(1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, id, ref := lostOn(t)
			end(w, id)
			require.True(t, w.job(id).Terminal())
			w.do(jobverbs.ControlJob{Job: id, Action: work.ActionRetry})
			j := w.job(id)
			require.Equal(t, queued, j.State)
			require.Len(t, j.Awaits, 1)
			require.Equal(t, id, j.Class().Own)
			w.node("n5", 8)
			require.Len(t, do[jobverbs.PlaceResult](w, jobverbs.PlaceJobs{Placements: []work.Placement{w.placement(id, "n5")}}).Refused, 1)
			w.do(says("n1", ref, jobverbs.ReportEnded))
			require.Zero(t, w.job(id).Class().Own, "nothing speaks against any node any more")
			w.place(id, "n5")
		})
	}
}

func TestAwaits_areForgottenWithTheirJob(t *testing.T) {
	w, id, _ := lostOn(t)
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel}, clusterverbs.Configure{KeepFinished: 1})
	b := w.submit(oneGPU())
	w.later(time.Second)
	w.do(jobverbs.ControlJob{Job: b, Action: work.ActionCancel})
	w.do(clusterverbs.Tick{})
	_, ok := w.m.View().Job(id)
	require.False(t, ok)
	require.Empty(t, w.m.View().AwaitedOn("n1"))
}

// A task given up is not one that an operator vouched for.
func TestAwaits_ofATaskGivenUp(t *testing.T) {
	w := cluster(t)
	a, b := w.submit(oneGPU()), w.submit(oneGPU())
	w.place(a, "n1")
	w.place(b, "n2")
	w.away("n1")
	w.away("n2")
	w.setNode(nodeverbs.SetNode{ID: "n2", Action: nodeverbs.NodeForget})
	w.later(24 * time.Hour)
	require.Equal(t, 1, do[clusterverbs.TickResult](w, clusterverbs.Tick{Settled: true}).GaveUp)
	for id, waits := range map[ident.Job]bool{a: true, b: false} {
		require.Equal(t, lostJob, w.job(id).State)
		w.do(jobverbs.ControlJob{Job: id, Action: work.ActionRetry})
		require.Equal(t, waits, w.job(id).Replacement())
	}
	w.node("n1", 8)
	require.False(t, w.job(a).Replacement())
}

func TestAvoids_whereACountedFailureWas(t *testing.T) {
	for name, c := range map[string]struct {
		report func(*jobverbs.TaskReport)
		avoids bool
	}{
		"a GPU":               {failed(v1.ErrorType_GPU_FAULT, "XID 79"), true},
		"a launch":            {failed(v1.ErrorType_LAUNCH_FAILED, "no such image"), true},
		"its data":            {failed(v1.ErrorType_DATA_FETCH, "no such bucket"), true},
		"the program":         {exit(1), true},
		"the node's own will": {failed(v1.ErrorType_DRAINED, "the agent was stopped"), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(t)
			n := gang(2)
			n.Retry = work.RetryPolicy{Max: 4, On: work.RetryAll}
			id := w.submit(n)
			w.place(id, "n1", "n2")
			w.run(id)
			w.report(id, 1, jobverbs.ReportEnded, c.report)
			w.report(id, 0, jobverbs.ReportEnded, exit(143))
			j := w.job(id)
			require.Equal(t, queued, j.State)
			require.Equal(t, c.avoids, j.Avoids("n2"))
			require.False(t, j.Avoids("n1"), "it did nothing wrong")
			require.False(t, j.Avoids(""))
			require.Equal(t, c.avoids, j.Class().Own == id)
			// It is a preference: the state takes the node that failed.
			w.place(id, "n2", "n3")
			w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel})
			w.report(id, 0, jobverbs.ReportEnded, exit(0))
			w.report(id, 1, jobverbs.ReportEnded, exit(0))
			w.do(jobverbs.ControlJob{Job: id, Action: work.ActionRetry})
			require.False(t, w.job(id).Avoids("n2"), "a user who retries it says that the nodes are well")
			require.Zero(t, w.job(id).Class().Own)
			require.Equal(t, c.avoids, w.job(id).Past[0].FailedNode == "n2", "what happened is remembered all the same")
		})
	}
}
