package fsm

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// doV1 applies an entry as the first version wrote them.
func (w *world) doV1(cmds ...Command) []any { return w.doAs(1, cmds...) }

// doAs applies an entry of a version.
func (w *world) doAs(version byte, cmds ...Command) []any {
	w.index++
	e := Entry{Index: w.index, Data: w.entry(cmds...)}
	e.Data[0] = version
	w.log = append(w.log, e)
	res := w.m.Apply(e.Index, e.Data)
	require.Empty(w.t, Check(w.m.View()))
	return res
}

// TestEntry_olderOnesDoWhatTheyDid holds that a log which was begun by the first version means the same to this one: a
// replica that replays it comes to the state of one that applied it then.
func TestEntry_olderOnesDoWhatTheyDid(t *testing.T) {
	w := newWorld(t)
	w.doV1(RegisterNode{Node: testNode("n1", "boot1", 8)}, RegisterNode{Node: testNode("n2", "boot1", 8)})
	require.Zero(t, w.row("n1").RosterSince)
	n := retried(oneGPU(), 5)
	n.GiveUpAfter = int64(time.Hour)
	n2 := n
	n2.Retry = RetryPolicy{}
	res := w.doV1(SubmitJobs{Jobs: []NewJob{n, n2}})[0].(SubmitJobsResult).Results
	a, b := res[0].Job, res[1].Job
	w.doV1(PlaceJobs{Placements: []Placement{
		{Job: a, Attempt: 1, Tasks: []TaskPlacement{{"n1", 1}}}, {Job: b, Attempt: 1, Tasks: []TaskPlacement{{"n2", 1}}},
	}})
	report := func(id JobID, kind ReportKind, change func(*TaskReport)) ReportTasks {
		j := w.job(id)
		r := TaskReport{Job: id, Attempt: j.Attempt, Token: j.Token, Kind: kind, Time: w.now}
		change(&r)
		return ReportTasks{Node: j.Tasks[0].Node, Reports: []TaskReport{r}}
	}
	saved := w.doV1(report(a, ReportCheckpoint, func(r *TaskReport) { r.Path = "/c/1" }))[0].(ReportResult)
	require.Len(t, saved.Checkpoints, 1, "manifests were not asked for")
	w.doV1(report(a, ReportEnded, func(r *TaskReport) { r.ErrorType = v1.ErrorType_GPU_FAULT }))
	require.Equal(t, queued, w.job(a).State)
	require.False(t, w.job(a).Avoids("n1"))
	w.doV1(SetNode{ID: "n2", Action: NodeUnreachable})
	w.doV1(SetNode{ID: "n1", Action: NodeEnable})
	require.Zero(t, w.row("n1").EnabledAt)
	w.later(time.Hour)
	require.Equal(t, 1, w.doV1(Tick{})[0].(TickResult).GaveUp)
	require.False(t, w.job(b).Replacement())
	w.doV1(ControlJob{Job: b, Action: ActionRetry, Checkpoint: saved.Checkpoints[0]})
	require.Zero(t, w.job(b).RetriedAt)
	require.Zero(t, w.job(b).ChosenAt)
	require.Zero(t, w.m.st.meta.Second)

	// The second version takes over.
	w.do(Tick{})
	require.Equal(t, w.index, w.m.st.meta.Second)
	w.node("n1", 8)
	require.Equal(t, w.index, w.row("n1").RosterSince)
	w.runOn(a, "n1")
	require.Equal(t, 1, w.report(a, 0, ReportCheckpoint, func(r *TaskReport) { r.Path = "/c/2" }).Incomplete)
	require.Equal(t, saved.Checkpoints, w.resumePoints(a), "an older one is gone on from only where nothing else is known")
	again := New()
	again.ApplyBatch(w.log)
	sameState(t, w.m, again)
	require.NoError(t, again.Restore(bytes.NewReader(snapshotBytes(t, w.m))))
	sameState(t, w.m, again)
}
