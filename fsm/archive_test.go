package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/checkpointverbs"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// archivist registers a node whose agent has an archive.
func (w *world) archivist(id string) {
	n := testNode(id, "boot1", 8)
	n.Archive = true
	require.Nil(w.t, do[nodeverbs.NodeResult](w, nodeverbs.RegisterNode{Node: n}).Refusal)
}

func (w *world) checkpoint(id ident.Checkpoint) *checkpoints.Checkpoint {
	c, ok := w.m.View().Checkpoint(id)
	require.True(w.t, ok)
	return c
}

// says reports one thing about a checkpoint.
func (w *world) says(node string, r checkpointverbs.Report) checkpointverbs.ReportResult {
	return do[checkpointverbs.ReportResult](w, checkpointverbs.ReportCheckpoints{Node: node, Reports: []checkpointverbs.Report{r}})
}

func (w *world) uploads(id ident.Checkpoint, bytes int64) checkpointverbs.ReportResult {
	return w.says(w.checkpoint(id).Node, checkpointverbs.Report{ID: id, Kind: checkpointverbs.ReportUpload, Bytes: bytes})
}

func (w *world) stores(id ident.Checkpoint) checkpointverbs.ReportResult {
	c := w.checkpoint(id)
	return w.says(c.Node, checkpointverbs.Report{ID: id, Kind: checkpointverbs.ReportStored, Bytes: 5, Key: c.ArchiveKey(), Digest: "sha256:content"})
}

func (w *world) pin(id ident.Checkpoint, off bool) checkpointverbs.CheckpointResult {
	return do[checkpointverbs.CheckpointResult](w, checkpointverbs.PinCheckpoint{Tenant: "acme", ID: id, Off: off})
}

// orders says what a node has to do, by checkpoint.
func (w *world) orders(node string) map[ident.Checkpoint][]v1.CheckpointAction_Value {
	out := map[ident.Checkpoint][]v1.CheckpointAction_Value{}
	for _, o := range w.m.View().CheckpointOrders(node) {
		out[o.ID] = append(out[o.ID], o.Action)
	}
	return out
}

// keeping submits a job with a retention, and runs it on a node with an archive.
func (w *world) keeping(r checkpoints.Retention, node string) ident.Job {
	n := retried(oneGPU(), 9)
	n.Retention = r
	id := w.submit(n)
	w.runOn(id, node)
	return id
}

// archived goes on with a job whose checkpoints are uploaded, given up, pinned and deleted.
func archived(w *world) {
	w.archivist("n5")
	id := w.keeping(checkpoints.Retention{Keep: 1, Best: 1, Metric: "+accuracy"}, "n5")
	first := w.saves(id, 1)
	w.uploads(first, 0)
	w.stores(first)
	second := w.saves(id, 2)
	w.pin(second, false)
	third := w.saves(id, 3)
	w.uploads(third, 0)
	w.stores(third)
	w.saves(id, 4)
	require.Nil(w.t, do[checkpointverbs.CheckpointResult](w, checkpointverbs.DeleteCheckpoint{Tenant: "acme", ID: second}).Refusal)
	scored := anEvaluation()
	scored.Scores = third
	w.submit(scored)
}

func TestArchive_aCheckpointBecomesDurableAndItsOldOnesGo(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	id := w.keeping(checkpoints.Retention{Keep: 1}, "n1")
	first := w.saves(id, 1)
	require.Equal(t, v1.CheckpointState_LOCAL, w.checkpoint(first).State)
	require.Equal(t, []v1.CheckpointAction_Value{v1.CheckpointAction_UPLOAD}, w.orders("n1")[first])
	require.Equal(t, 1, w.uploads(first, 3).Applied)
	require.Equal(t, v1.CheckpointState_UPLOADING, w.checkpoint(first).State)

	// While it is uploaded it stays, although a newer one is saved; so it does until a newer one is DURABLE.
	second := w.saves(id, 2)
	require.False(t, w.checkpoint(first).Expired())
	require.Equal(t, 1, w.stores(first).Applied)
	require.True(t, w.checkpoint(first).Durable())
	require.Equal(t, 1, w.stores(first).Duplicate)
	require.EqualValues(t, 5, w.m.View().ArchiveBytes())
	require.Equal(t, []v1.CheckpointAction_Value{v1.CheckpointAction_UPLOAD}, w.orders("n1")[second])
	require.NotContains(t, w.orders("n1"), first)
	require.Equal(t, 1, w.stores(second).Applied)
	gone := w.checkpoint(first)
	require.True(t, gone.Expired())
	require.Equal(t, []v1.CheckpointAction_Value{v1.CheckpointAction_REMOVE_FILES, v1.CheckpointAction_REMOVE_ARCHIVED}, w.orders("n1")[first])
	require.Equal(t, []ident.Checkpoint{second}, w.resumePoints(id))

	require.Equal(t, 1, w.says("n1", checkpointverbs.Report{ID: first, Kind: checkpointverbs.ReportFilesRemoved}).Applied)
	require.Equal(t, 1, w.says("n1", checkpointverbs.Report{ID: first, Kind: checkpointverbs.ReportArchivedRemoved}).Applied)
	require.Empty(t, w.orders("n1"))
	require.Zero(t, w.checkpoint(first).Left)
	require.EqualValues(t, 5, w.m.View().ArchiveBytes(), "of the second one")
}

// durable saves a checkpoint and uploads it.
func (w *world) durable(id ident.Job, step int64) ident.Checkpoint {
	c := w.saves(id, step)
	require.Equal(w.t, 1, w.stores(c).Applied)
	return c
}

func TestArchive_onlyWhoHasTheOrderIsBelieved(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	w.archivist("n2")
	id := w.keeping(checkpoints.Retention{Keep: 1}, "n1")
	c := w.saves(id, 1)
	key := w.checkpoint(c).ArchiveKey()
	before := *w.checkpoint(c)
	for what, says := range map[string]func() checkpointverbs.ReportResult{
		"another node": func() checkpointverbs.ReportResult {
			return w.says("n2", checkpointverbs.Report{ID: c, Kind: checkpointverbs.ReportStored, Key: key, Digest: "d"})
		},
		"another key": func() checkpointverbs.ReportResult {
			return w.says("n1", checkpointverbs.Report{ID: c, Kind: checkpointverbs.ReportStored, Key: key + "x", Digest: "d"})
		},
		"without a digest": func() checkpointverbs.ReportResult {
			return w.says("n1", checkpointverbs.Report{ID: c, Kind: checkpointverbs.ReportStored, Key: key})
		},
		"progress of another node": func() checkpointverbs.ReportResult {
			return w.says("n2", checkpointverbs.Report{ID: c, Kind: checkpointverbs.ReportUpload, Gone: true})
		},
		"an unknown kind": func() checkpointverbs.ReportResult { return w.says("n1", checkpointverbs.Report{ID: c, Kind: 9}) },
		"of nothing": func() checkpointverbs.ReportResult {
			return w.says("n1", checkpointverbs.Report{ID: 99, Kind: checkpointverbs.ReportUpload})
		},
	} {
		require.Equal(t, checkpointverbs.ReportResult{Stale: 1}, says(), what)
		require.Equal(t, before, *w.checkpoint(c), what)
	}
	for _, kind := range []checkpointverbs.ReportKind{checkpointverbs.ReportFilesRemoved, checkpointverbs.ReportArchivedRemoved} {
		require.Equal(t, 1, w.says("n1", checkpointverbs.Report{ID: c, Kind: kind}).Duplicate, "nothing of it was to be removed")
	}
	require.Equal(t, before, *w.checkpoint(c))

	// One that was given up stays given up, and what came into the archive since is removed from there.
	w.uploads(c, 1)
	w.durable(id, 2)
	require.True(t, w.checkpoint(c).Expired())
	w.says("n1", checkpointverbs.Report{ID: c, Kind: checkpointverbs.ReportArchivedRemoved})
	w.says("n1", checkpointverbs.Report{ID: c, Kind: checkpointverbs.ReportFilesRemoved})
	require.Empty(t, w.orders("n1"))
	require.Equal(t, 1, w.stores(c).Stale)
	require.True(t, w.checkpoint(c).Expired())
	require.Equal(t, []v1.CheckpointAction_Value{v1.CheckpointAction_REMOVE_ARCHIVED}, w.orders("n1")[c])
	require.EqualValues(t, 10, w.m.View().ArchiveBytes())
}

func TestArchive_whatIsGoneIsNotGoneOnFrom(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	id := w.keeping(checkpoints.Retention{}, "n1")
	first, second := w.saves(id, 1), w.saves(id, 2)
	require.Equal(t, 1, w.says("n1", checkpointverbs.Report{ID: second, Kind: checkpointverbs.ReportUpload, Gone: true, Error: "no such directory"}).Applied)
	require.True(t, w.checkpoint(second).Expired())
	require.Equal(t, reason.New(reason.FilesGone, "n1", reason.Reason("no such directory")), w.checkpoint(second).Reason)
	require.Equal(t, first, w.job(id).LastCheckpoint)
	require.Equal(t, []ident.Checkpoint{first}, w.resumePoints(id))
	require.NotContains(t, w.orders("n1")[second], v1.CheckpointAction_REMOVE_FILES, "another directory has the name now")

	w.breaks(id)
	require.Equal(t, first, w.job(id).ResumeFrom)
	refused := do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{func() jobverbs.NewJob {
		n := oneGPU()
		n.ResumeFrom = second
		return n
	}()}}).Results[0].Refusal
	require.Equal(t, reason.CheckpointExpired, refused.Reason.Code())
	require.Equal(t, reason.CheckpointExpired, w.pin(second, false).Refusal.Reason.Code())
	scored := anEvaluation()
	scored.Scores = second
	require.Equal(t, reason.CheckpointExpired, do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{scored}}).Results[0].Refusal.Reason.Code())
}

func TestArchive_aModelIsKeptAndNothingGoesOnFromIt(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	id := w.keeping(checkpoints.Retention{Keep: 1}, "n1")
	model := w.report(id, 0, jobverbs.ReportCheckpoint, func(r *jobverbs.TaskReport) { r.Path, r.Digest, r.Model = "/model", "d", true }).Checkpoints[0]
	require.Zero(t, w.job(id).LastCheckpoint)
	require.Empty(t, w.resumePoints(id))
	first, second := w.durable(id, 1), w.durable(id, 2)
	require.True(t, w.checkpoint(first).Expired())
	require.False(t, w.checkpoint(model).Expired())
	require.Equal(t, []v1.CheckpointAction_Value{v1.CheckpointAction_UPLOAD}, w.orders("n1")[model])
	require.Equal(t, []ident.Checkpoint{second}, w.resumePoints(id))
	n := oneGPU()
	n.ResumeFrom = model
	require.Equal(t, reason.CheckpointIsModel, do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{n}}).Results[0].Refusal.Reason.Code())
	over := w.report(id, 0, jobverbs.ReportCheckpoint, func(r *jobverbs.TaskReport) { r.Path, r.Digest, r.Model = "/c/3", "d", true })
	third := w.saves(id, 3)
	require.Equal(t, third, w.job(id).LastCheckpoint, "it was written over %v", over)
	w.report(id, 0, jobverbs.ReportCheckpoint, func(r *jobverbs.TaskReport) { r.Path, r.Digest, r.Model = "/c/3", "e", true })
	require.Equal(t, second, w.job(id).LastCheckpoint, "a model was written over the last one")
}

func TestArchive_pinnedAndNeededOnesStay(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	id := w.keeping(checkpoints.Retention{Keep: 1}, "n1")
	pinned := w.durable(id, 1)
	require.True(t, w.pin(pinned, false).Checkpoint.Pinned)
	require.Equal(t, kernel.CodeNotFound, do[checkpointverbs.CheckpointResult](w, checkpointverbs.PinCheckpoint{Tenant: "evil", ID: pinned}).Refusal.Code)
	scored := w.durable(id, 2)
	evaluation := anEvaluation()
	evaluation.Scores = scored
	eval := w.submit(evaluation)
	other := oneGPU()
	goneOn := w.durable(id, 3)
	other.ResumeFrom = goneOn
	follower := w.submit(other)
	last := w.durable(id, 4)
	for _, c := range []ident.Checkpoint{pinned, scored, goneOn, last} {
		require.True(t, w.checkpoint(c).Durable(), "%s", c)
	}
	w.do(jobverbs.ControlJob{Job: eval, Action: work.ActionCancel})
	require.True(t, w.checkpoint(scored).Expired(), "nobody scores it any more")
	w.do(jobverbs.ControlJob{Job: follower, Action: work.ActionCancel})
	require.True(t, w.checkpoint(goneOn).Expired())
	require.False(t, w.pin(pinned, true).Checkpoint.Pinned)
	require.True(t, w.checkpoint(pinned).Expired())
	require.True(t, w.checkpoint(last).Durable())
}

func TestArchive_nothingIsLeftBehind(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	id := w.keeping(checkpoints.Retention{}, "n1")
	deleted, over, last := w.durable(id, 1), w.saves(id, 2), w.durable(id, 3)
	w.uploads(over, 1)
	keys := map[ident.Checkpoint]string{}
	for _, c := range []ident.Checkpoint{deleted, over, last} {
		keys[c] = w.checkpoint(c).ArchiveKey()
	}
	left := func() map[ident.Checkpoint]string {
		out := map[ident.Checkpoint]string{}
		for _, o := range w.m.View().CheckpointOrders("n1") {
			if o.Checkpoint == nil {
				require.Equal(t, v1.CheckpointAction_REMOVE_ARCHIVED, o.Action)
				out[o.ID] = o.Key
			}
		}
		return out
	}
	require.Nil(t, do[checkpointverbs.CheckpointResult](w, checkpointverbs.DeleteCheckpoint{Tenant: "acme", ID: deleted}).Refusal)
	require.Equal(t, map[ident.Checkpoint]string{deleted: keys[deleted]}, left())
	w.report(id, 0, jobverbs.ReportCheckpoint, func(r *jobverbs.TaskReport) { r.Path, r.Digest, r.Step = "/c/2", "other", 2 })
	require.Equal(t, map[ident.Checkpoint]string{deleted: keys[deleted], over: keys[over]}, left())

	// A DURABLE one that is written over stays until the new one is DURABLE.
	again := w.report(id, 0, jobverbs.ReportCheckpoint, func(r *jobverbs.TaskReport) { r.Path, r.Digest, r.Step = "/c/3", "other", 3 }).Checkpoints[0]
	require.Contains(t, w.resumePoints(id), last)
	w.stores(again)
	require.True(t, w.checkpoint(last).Expired())
	require.Equal(t, []v1.CheckpointAction_Value{v1.CheckpointAction_REMOVE_ARCHIVED}, w.orders("n1")[last])

	// The job is forgotten.
	w.report(id, 0, jobverbs.ReportEnded, exit(0))
	w.do(clusterverbs.Configure{KeepFinished: 1})
	n := oneGPU()
	newer := w.submit(n)
	w.later(time.Second)
	w.do(jobverbs.ControlJob{Job: newer, Action: work.ActionCancel})
	require.Equal(t, 1, do[clusterverbs.TickResult](w, clusterverbs.Tick{}).Dropped)
	require.Len(t, left(), 5, "of all five that the archive may have something of")
	for c := range left() {
		require.Equal(t, 1, w.says("n1", checkpointverbs.Report{ID: c, Kind: checkpointverbs.ReportArchivedRemoved}).Applied)
	}
	require.Empty(t, left())
	require.Zero(t, w.m.View().ArchiveBytes())

	// A copy that comes later is a leftover again; one that could be of another checkpoint is not.
	require.Equal(t, 1, w.says("n1", checkpointverbs.Report{ID: last, Kind: checkpointverbs.ReportStored, Bytes: 7, Key: keys[deleted], Digest: "d"}).Stale)
	require.Empty(t, left())
	require.Equal(t, 1, w.says("n1", checkpointverbs.Report{ID: last, Kind: checkpointverbs.ReportStored, Bytes: 7, Key: keys[last], Digest: "d"}).Stale)
	require.Equal(t, map[ident.Checkpoint]string{last: keys[last]}, left())
	require.EqualValues(t, 7, w.m.View().ArchiveBytes())
}

func TestArchive_ofAForgottenNodeIsRemovedByAnother(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	w.archivist("n2")
	id := w.keeping(checkpoints.Retention{Keep: 1}, "n1")
	first := w.durable(id, 1)
	w.do(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeForget})
	w.later(time.Hour)
	w.do(clusterverbs.Tick{})
	w.runOn(id, "n2")
	require.Equal(t, []ident.Checkpoint{first}, w.resumePoints(id))
	w.durable(id, 2)
	require.False(t, w.checkpoint(first).Expired(), "the attempt went on from it")
	w.breaks(id)
	require.True(t, w.checkpoint(first).Expired())
	require.Equal(t, []v1.CheckpointAction_Value{v1.CheckpointAction_REMOVE_ARCHIVED}, w.orders("n2")[first], "its files are beyond reach")
	require.Equal(t, 1, w.says("n2", checkpointverbs.Report{ID: first, Kind: checkpointverbs.ReportArchivedRemoved}).Applied)
	require.Empty(t, w.orders("n2"))
}

func TestArchive_theNewestDurableIsAResumePointHoweverOld(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	id := w.keeping(checkpoints.Retention{}, "n1")
	older, durable := w.durable(id, 1), w.durable(id, 2)
	for step := range int64(checkpoints.MaxResumePoints) {
		w.saves(id, 3+step)
	}
	points := w.resumePoints(id)
	require.Len(t, points, checkpoints.MaxResumePoints+1)
	require.Equal(t, durable, points[checkpoints.MaxResumePoints])
	require.NotContains(t, points, older)
}

func TestArchive_tooManyGiveUpWhatExpiredFirst(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	id := w.keeping(checkpoints.Retention{}, "n1")
	first, pinned, gone := w.saves(id, 1), w.saves(id, 2), w.saves(id, 3)
	w.pin(pinned, false)
	w.says("n1", checkpointverbs.Report{ID: gone, Kind: checkpointverbs.ReportUpload, Gone: true})
	var reports []jobverbs.TaskReport
	j := w.job(id)
	for i := range checkpoints.MaxPerJob - 2 {
		reports = append(reports, jobverbs.TaskReport{Job: id, Attempt: 1, Token: j.Token, Kind: jobverbs.ReportCheckpoint, Path: w.checkpoint(first).Path + "/" + ident.Checkpoint(i).String(), Digest: "d", Step: int64(10 + i)})
	}
	w.do(jobverbs.ReportTasks{Node: "n1", Reports: reports})
	has := func(c ident.Checkpoint) bool { _, ok := w.m.View().Checkpoint(c); return ok }
	require.Equal(t, []bool{true, true, false}, []bool{has(first), has(pinned), has(gone)})
	w.saves(id, 4)
	require.Equal(t, []bool{false, true}, []bool{has(first), has(pinned)})
}

func TestArchive_pinsAreAudited(t *testing.T) {
	w := newWorld(t)
	w.archivist("n1")
	c := w.saves(w.keeping(checkpoints.Retention{}, "n1"), 1)
	who := &access.Actor{Tenant: "acme", User: "ada"}
	w.do(checkpointverbs.PinCheckpoint{Tenant: "acme", ID: c, Actor: who}, checkpointverbs.PinCheckpoint{Tenant: "acme", ID: c, Off: true, Actor: who})
	var did []string
	for r := range w.m.View().AuditRecords(0) {
		did = append(did, r.Action.String()+" "+r.Object)
	}
	require.Subset(t, did, []string{"checkpoint.pin " + c.String(), "checkpoint.unpin " + c.String()})
}
