package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// recovered goes on with a state under one voter, far ahead in the log, as `mind raft recover` does.
func (w *world) recovered() clusterverbs.RecoverResult {
	w.index += 1 << 40
	return do[clusterverbs.RecoverResult](w, clusterverbs.Recover{Voters: []string{"c1"}, From: "c1", Actor: &access.Actor{User: "root"}})
}

// back registers a node as it was, with what it still runs.
func (w *world) back(id string, tasks ...work.TaskRef) {
	row := w.row(id)
	n := *row
	n.RosterAcked = 0
	require.Nil(w.t, do[nodeverbs.NodeResult](w, nodeverbs.RegisterNode{Node: n, Tasks: tasks}).Refusal)
}

func (w *world) ref(id ident.Job, rank uint16) work.TaskRef {
	j := w.job(id)
	return work.TaskRef{Job: id, Attempt: j.Attempt, Rank: rank, Token: j.Token}
}

func TestRecover_whatStillRunsGoesOn(t *testing.T) {
	w := cluster(t)
	w.do(coordinators.PutCoordinator{Coordinator: coordinators.Coordinator{ID: "c1"}}, coordinators.PutCoordinator{Coordinator: coordinators.Coordinator{ID: "c2"}})
	id := w.submit(retried(gang(2), 0))
	token := w.place(id, "n1", "n2")
	w.run(id)
	res := w.recovered()
	require.Equal(t, clusterverbs.RecoverResult{Nodes: 4, Jobs: 0}, res)
	require.Equal(t, []string{"n1", "n2", "n3", "n4"}, w.m.View().Unheard())
	require.Equal(t, v1.NodeState_UNREACHABLE, w.nodeState("n1"))
	require.Equal(t, []string{"c1"}, w.m.View().Voters())
	_, there := w.m.View().Coordinator("c2")
	require.False(t, there, "it is no member any more")
	require.NotNil(t, do[nodeverbs.NodeResult](w, nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeReachable}).Refusal, "it has to say what it runs")

	w.back("n1", w.ref(id, 0))
	w.back("n2", w.ref(id, 1))
	require.Equal(t, running, w.job(id).State)
	require.Equal(t, token, w.job(id).Token)
	w.report(id, 0, jobverbs.ReportEnded, exit(0))
	w.report(id, 1, jobverbs.ReportEnded, exit(0))
	require.Equal(t, succeeded, w.job(id).State)
	require.Greater(t, w.submit(oneGPU()), ident.Job(1<<56), "no id of the lost part of the log is given again")
}

// The lost part of the log may have ended an attempt, and begun another one elsewhere: neither is known.
func TestRecover_whatEndedMeanwhileIsRunAgainAfterAllWereHeard(t *testing.T) {
	w := cluster(t)
	ran, assigned := w.submit(retried(oneGPU(), 0)), w.submit(retried(oneGPU(), 0))
	w.runOn(ran, "n1")
	w.place(assigned, "n1")
	waits := w.submit(oneGPU())
	require.Equal(t, clusterverbs.RecoverResult{Nodes: 4, Jobs: 1}, w.recovered())
	require.Equal(t, work.HoldRecovery, w.job(waits).Held)

	w.back("n1") // It has neither of them any more.
	for _, id := range []ident.Job{ran, assigned} {
		j := w.job(id)
		require.Equal(t, queued, j.State, "not launched there: it may live elsewhere")
		require.Equal(t, work.HoldRecovery, j.Held)
		require.Equal(t, v1.ErrorType_NODE_LOST, j.Past[0].ErrorType)
		require.Equal(t, work.LossForgottenByLog, j.Past[0].Loss.How)
	}
	fresh := w.submit(oneGPU())
	require.True(t, w.job(fresh).Waiting(), "what was submitted since lives nowhere else")
	w.place(fresh, "n1")

	w.later(time.Hour)
	w.do(clusterverbs.Tick{})
	require.False(t, w.job(waits).Waiting(), "three nodes have not been heard of")
	w.back("n2")
	w.back("n3")
	require.Nil(t, do[nodeverbs.NodeResult](w, nodeverbs.SetNode{ID: "n4", Action: nodeverbs.NodeForget}).Refusal)
	require.Empty(t, w.m.View().Unheard())
	at, any := w.m.View().NextDue()
	require.True(t, any)
	require.LessOrEqual(t, at, w.now)
	require.Equal(t, 3, do[clusterverbs.TickResult](w, clusterverbs.Tick{}).Released)
	for _, id := range []ident.Job{ran, assigned, waits} {
		require.True(t, w.job(id).Waiting())
	}
	w.place(waits, "n2")
}

// A node that joined in the lost part of the log is not known, and may run what was there before. It ends that by its own
// deadline.
func TestRecover_waitsForTheLeasesOfNodesThatNobodyKnows(t *testing.T) {
	w := cluster(t)
	n := oneGPU()
	n.LostAfter = int64(30 * time.Second)
	id := w.submit(n)
	paused := w.submit(n)
	w.do(jobverbs.ControlJob{Job: paused, Action: work.ActionPause})
	w.recovered()
	for _, node := range []string{"n1", "n2", "n3", "n4"} {
		w.back(node)
	}
	w.do(jobverbs.ControlJob{Job: paused, Action: work.ActionResume})
	require.Equal(t, work.HoldRecovery, w.job(paused).Held, "it may have been resumed before")
	w.later(38*time.Second - 1)
	w.do(clusterverbs.Tick{})
	require.Equal(t, work.HoldRecovery, w.job(id).Held)
	w.later(1)
	require.Equal(t, 2, do[clusterverbs.TickResult](w, clusterverbs.Tick{}).Released)
	require.True(t, w.job(id).Waiting())
	w.do(jobverbs.ControlJob{Job: paused, Action: work.ActionPause}, jobverbs.ControlJob{Job: paused, Action: work.ActionResume})
	require.Zero(t, w.job(paused).Held, "it is over")
}

func TestRecover_aHeldJobCanBeCanceledAndPaused(t *testing.T) {
	w := cluster(t)
	one, two := w.submit(oneGPU()), w.submit(oneGPU())
	w.recovered()
	w.do(jobverbs.ControlJob{Job: one, Action: work.ActionCancel}, jobverbs.ControlJob{Job: two, Action: work.ActionPause})
	require.Equal(t, canceled, w.job(one).State)
	require.Equal(t, v1.JobState_PAUSED, w.job(two).State)
}

func TestRecover_isAudited(t *testing.T) {
	w := cluster(t)
	w.recovered()
	w.do(clusterverbs.NoteSnapshot{By: "c1", Actor: &access.Actor{User: "root"}})
	var actions []string
	for r := range w.m.View().AuditRecords(clusterverbs.AuditSnapshotSave) {
		actions = append(actions, r.Action.String()+" by "+r.User)
	}
	require.Equal(t, []string{"snapshot.save by root", "cluster.recover by root"}, actions)
}
