package fsm_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
)

// doV1 applies an entry as the first version wrote them.
func (w *world) doV1(cmds ...kernel.Command) []any { return w.doAs(1, cmds...) }

// doAs applies an entry of a version.
func (w *world) doAs(version byte, cmds ...kernel.Command) []any {
	defer func(at level.Level) { w.at = at }(w.at)
	w.at = level.Level(version)
	return w.do(cmds...)
}

// TestEntry_olderOnesDoWhatTheyDid holds that a log which was begun by the first version means the same to this one: a
// replica that replays it comes to the state of one that applied it then.
func TestEntry_olderOnesDoWhatTheyDid(t *testing.T) {
	w := newWorld(t)
	w.doV1(work.RegisterNode{Node: testNode("n1", "boot1", 8)}, work.RegisterNode{Node: testNode("n2", "boot1", 8)})
	require.Zero(t, w.row("n1").RosterSince)
	n := retried(oneGPU(), 5)
	n.GiveUpAfter = int64(time.Hour)
	n2 := n
	n2.Retry = work.RetryPolicy{}
	res := w.doV1(work.SubmitJobs{Jobs: []work.NewJob{n, n2}})[0].(work.SubmitJobsResult).Results
	a, b := res[0].Job, res[1].Job
	w.doV1(work.PlaceJobs{Placements: []work.Placement{
		{Job: a, Attempt: 1, Tasks: []work.TaskPlacement{{Node: "n1", GPUs: 1}}}, {Job: b, Attempt: 1, Tasks: []work.TaskPlacement{{Node: "n2", GPUs: 1}}},
	}})
	report := func(id ident.Job, kind work.ReportKind, change func(*work.TaskReport)) work.ReportTasks {
		j := w.job(id)
		r := work.TaskReport{Job: id, Attempt: j.Attempt, Token: j.Token, Kind: kind, Time: w.now}
		change(&r)
		return work.ReportTasks{Node: j.Tasks[0].Node, Reports: []work.TaskReport{r}}
	}
	saved := w.doV1(report(a, work.ReportCheckpoint, func(r *work.TaskReport) { r.Path = "/c/1" }))[0].(work.ReportResult)
	require.Len(t, saved.Checkpoints, 1, "manifests were not asked for")
	w.doV1(report(a, work.ReportEnded, func(r *work.TaskReport) { r.ErrorType = v1.ErrorType_GPU_FAULT }))
	require.Equal(t, queued, w.job(a).State)
	require.False(t, w.job(a).Avoids("n1"))
	w.doV1(work.SetNode{ID: "n2", Action: work.NodeUnreachable})
	w.doV1(work.SetNode{ID: "n1", Action: work.NodeEnable})
	require.Zero(t, w.row("n1").EnabledAt)
	w.later(time.Hour)
	require.Equal(t, 1, w.doV1(work.Tick{})[0].(work.TickResult).GaveUp)
	require.False(t, w.job(b).Replacement())
	w.doV1(work.ControlJob{Job: b, Action: work.ActionRetry, Checkpoint: saved.Checkpoints[0]})
	require.Zero(t, w.job(b).RetriedAt)
	require.Zero(t, w.job(b).ChosenAt)
	require.Zero(t, w.working.state.Meta().Kernel().Second)

	// The second version takes over.
	w.do(work.Tick{})
	require.Equal(t, w.index, w.working.state.Meta().Kernel().Second)
	w.node("n1", 8)
	require.Equal(t, w.index, w.row("n1").RosterSince)
	w.runOn(a, "n1")
	require.Equal(t, 1, w.report(a, 0, work.ReportCheckpoint, func(r *work.TaskReport) { r.Path = "/c/2" }).Incomplete)
	require.Equal(t, saved.Checkpoints, w.resumePoints(a), "an older one is gone on from only where nothing else is known")
	again := fsm.New()
	w.replay(again)
	sameState(t, w.m, again)
	require.NoError(t, again.Restore(bytes.NewReader(snapshotBytes(t, w.m))))
	sameState(t, w.m, again)
}
