package fsm_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// runningGang is a gang of three of two GPUs each on n1 to n3 of four nodes.
func runningGang(t *testing.T) (*world, ident.Job) {
	w := cluster(t)
	id := w.submit(retried(gang(3), 3))
	w.place(id, "n1", "n2", "n3")
	w.run(id)
	return w, id
}

// hold returns the claim of a job.
func (w *world) hold(id ident.Job) *claims.Claim {
	c, ok := w.m.View().ClaimOf(id)
	require.True(w.t, ok, "nothing is held for %s", id)
	return c
}

func (w *world) unheld(id ident.Job) {
	_, ok := w.m.View().ClaimOf(id)
	require.False(w.t, ok)
	for n := range w.m.View().Nodes() {
		require.Zero(w.t, w.m.View().Use(n.ID).Claimed)
	}
}

// breaksDown ends all tasks of a gang, the first of them by a fault.
func (w *world) breaksDown(id ident.Job, rank uint16, cause v1.ErrorType_Value) {
	w.report(id, rank, jobverbs.ReportEnded, failed(cause, "of the infrastructure"))
	for r := range w.job(id).Tasks {
		if uint16(r) != rank {
			w.report(id, uint16(r), jobverbs.ReportEnded, exit(1))
		}
	}
}

// The places of the survivors are kept for the job alone, from the entry on in which its leases end; with what it is missing it
// goes on, each rank where it was.
func TestHold_keepsWhatTheSurvivorsHad(t *testing.T) {
	w, id := runningGang(t)
	other := w.submit(gang(1))
	w.report(id, 1, jobverbs.ReportEnded, failed(v1.ErrorType_GPU_FAULT, "XID 79"))
	w.unheld(id)
	w.report(id, 0, jobverbs.ReportEnded, exit(1))
	w.report(id, 2, jobverbs.ReportEnded, exit(1))

	c := w.hold(id)
	require.True(t, c.IsHold())
	require.Equal(t, []uint16{0, 2}, c.Ranks)
	require.Equal(t, []work.TaskPlacement{{Node: "n1", GPUs: 3}, {Node: "n3", GPUs: 3}}, c.Tasks)
	require.Equal(t, w.now+int64(2*time.Minute), c.Until)
	require.EqualValues(t, 3, w.m.View().Use("n1").Claimed.GPUs)
	require.Zero(t, w.m.View().Use("n2").Claimed)
	require.Zero(t, w.m.View().LeaseCount())
	r := do[jobverbs.PlaceResult](w, jobverbs.PlaceJobs{Placements: []work.Placement{{Job: other, Attempt: 1, Tasks: []work.TaskPlacement{{Node: "n1", GPUs: 3}}}}})
	require.Len(t, r.Refused, 1, "it is not free")

	restored := fsm.New()
	require.NoError(t, restored.Restore(bytes.NewReader(snapshotBytes(t, w.m))))
	again, ok := restored.View().ClaimOf(id)
	require.True(t, ok)
	require.Equal(t, c, again)
	require.Equal(t, w.m.View().Use("n3"), restored.View().Use("n3"))

	places := c.Places(3)
	places[1] = work.TaskPlacement{Node: "n4", GPUs: 3}
	r = do[jobverbs.PlaceResult](w, jobverbs.PlaceJobs{Placements: []work.Placement{{Job: id, Attempt: 2, Tasks: places}}})
	require.Empty(t, r.Refused)
	w.unheld(id)
	require.Equal(t, []string{"n1", "n4", "n3"}, work.TaskNodes(w.job(id).Tasks))
}

// Only faults of the infrastructure leave a hold, and only of gangs with GPUs of their own.
func TestHold_forWhom(t *testing.T) {
	t.Run("by what ended the attempt", func(t *testing.T) {
		for cause, holds := range map[v1.ErrorType_Value]bool{
			v1.ErrorType_GPU_FAULT: true, v1.ErrorType_LAUNCH_FAILED: true, v1.ErrorType_DATA_FETCH: false, v1.ErrorType_EXIT_NONZERO: false, v1.ErrorType_OOM: false,
		} {
			w := cluster(t)
			n := gang(3)
			n.Retry = work.RetryPolicy{Max: 3, On: work.RetryAll}
			id := w.submit(n)
			w.node("n5", 8)
			w.node("n6", 8)
			w.place(id, "n1", "n2", "n3")
			w.run(id)
			w.breaksDown(id, 0, cause)
			require.Equal(t, queued, w.job(id).State, cause)
			_, held := w.m.View().ClaimOf(id)
			require.Equal(t, holds, held, cause)
		}
	})
	t.Run("not without a task that survives", func(t *testing.T) {
		w := cluster(t)
		id := w.submit(retried(oneGPU(), 3))
		w.runOn(id, "n1")
		w.breaks(id)
		w.unheld(id)
	})
	t.Run("not of a fraction", func(t *testing.T) {
		w := cluster(t)
		n := retried(gang(2), 3)
		n.Shape.GPUs, n.Shape.FractionMilli = 0, 500
		id := w.submit(n)
		w.place(id, "n1", "n2")
		w.run(id)
		w.breaksDown(id, 0, v1.ErrorType_GPU_FAULT)
		w.unheld(id)
	})
	t.Run("not of a node that is drained, or was at fault too", func(t *testing.T) {
		w, id := runningGang(t)
		w.report(id, 1, jobverbs.ReportEnded, failed(v1.ErrorType_GPU_FAULT, "XID 79"))
		w.report(id, 0, jobverbs.ReportEnded, failed(v1.ErrorType_GPU_FAULT, "XID 79"))
		w.setNode(nodeverbs.SetNode{ID: "n3", Action: nodeverbs.NodeDrain})
		w.report(id, 2, jobverbs.ReportEnded, exit(1))
		w.unheld(id)
	})
	t.Run("not when the policy says so", func(t *testing.T) {
		w, id := runningGang(t)
		p := w.m.View().Policy()
		p.Hold = 0
		require.Nil(t, do[queueverbs.PolicyResult](w, queueverbs.PutPolicy{Policy: p, Base: p.Revision}).Refusal)
		w.breaksDown(id, 1, v1.ErrorType_GPU_FAULT)
		w.unheld(id)
	})
}

// Nobody waits for a job that fails again and again: it pauses for longer than its places are held.
func TestHold_notForAPauseThatIsLonger(t *testing.T) {
	w, id := runningGang(t)
	for attempt, held := range []bool{true, true, true, true, true, false} {
		w.saves(id, int64(10*(attempt+1)))
		w.breaksDown(id, 1, v1.ErrorType_GPU_FAULT)
		_, ok := w.m.View().ClaimOf(id)
		require.Equal(t, held, ok, "after attempt %d it pauses until %d", attempt+1, w.job(id).Streak.After-w.now)
		w.later(5 * time.Minute)
		w.do(clusterverbs.Tick{Settled: true})
		w.unheld(id)
		if w.place(id, "n1", "n2", "n3"); held {
			w.run(id)
		}
	}
}

// A hold ends by itself, and when the job does not wait any more.
func TestHold_ends(t *testing.T) {
	for name, end := range map[string]func(w *world, id ident.Job){
		"in time": func(w *world, id ident.Job) {
			w.later(2*time.Minute - 1)
			w.do(clusterverbs.Tick{})
			w.hold(id)
			due, any := w.m.View().NextDue()
			require.True(w.t, any)
			require.Equal(w.t, w.hold(id).Until, due)
			w.later(1)
			w.do(clusterverbs.Tick{})
			require.Equal(w.t, queued, w.job(id).State)
		},
		"by a cancel": func(w *world, id ident.Job) { w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel}) },
		"by a pause":  func(w *world, id ident.Job) { w.do(jobverbs.ControlJob{Job: id, Action: work.ActionPause}) },
		"by a recovery": func(w *world, id ident.Job) {
			w.do(clusterverbs.Recover{Voters: []string{"c1"}, From: "c1"})
			require.NotZero(w.t, w.job(id).Held&work.HoldRecovery)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, id := runningGang(t)
			w.breaksDown(id, 1, v1.ErrorType_GPU_FAULT)
			w.hold(id)
			end(w, id)
			w.unheld(id)
		})
	}
}

// The job whose places are held preempts nobody, and a lost node that may still run its task is waited for as ever.
func TestHold_afterALostNode(t *testing.T) {
	w, id := runningGang(t)
	low := retried(gang(1), 1)
	low.Priority, low.Preemptible = 1, true
	victim := w.submit(low)
	w.place(victim, "n4")
	w.away("n2")
	w.later(time.Minute)
	w.lose("n2", "n4")
	w.report(id, 0, jobverbs.ReportEnded, exit(1))
	w.report(id, 2, jobverbs.ReportEnded, exit(1))
	require.True(t, w.job(id).Replacement())
	c := w.hold(id)
	require.Equal(t, []uint16{0, 2}, c.Ranks)
	places := c.Places(3)
	places[1] = work.TaskPlacement{Node: "n4", GPUs: 3}
	r := do[jobverbs.PreemptResult](w, jobverbs.PreemptJobs{Preemptions: []jobverbs.Preemption{{Job: id, Attempt: 2, Tasks: places, Victims: []jobverbs.Victim{{Job: victim, Attempt: 1}}}}})
	require.Len(t, r.Refused, 1)

	w.node("n9", 8) // It joined after n2 was gone: n2 would not ask it.
	places[1] = work.TaskPlacement{Node: "n9", GPUs: 3}
	p := do[jobverbs.PlaceResult](w, jobverbs.PlaceJobs{Placements: []work.Placement{{Job: id, Attempt: 2, Tasks: places}}})
	require.Len(t, p.Refused, 1)
	require.Equal(t, reason.MayNotTakeOver, p.Refused[0].Reason.Code())
	require.Equal(t, c, w.hold(id), "a placement that is refused takes nothing")
}

// A victim of a preemption leaves what it had to the job that waits for it, whatever ends it.
func TestHold_notOfAVictim(t *testing.T) {
	w := cluster(t)
	low := retried(gang(2), 3)
	low.Priority, low.Preemptible, low.Shape.GPUs = 1, true, 8
	victim := w.submit(low)
	w.place(victim, "n1", "n2")
	w.run(victim)
	w.later(3 * time.Hour)
	high := gang(2)
	high.Priority, high.Shape.GPUs = 9, 8
	urgent := w.submit(high)
	r := do[jobverbs.PreemptResult](w, jobverbs.PreemptJobs{Preemptions: []jobverbs.Preemption{{
		Job: urgent, Attempt: 1, Tasks: []work.TaskPlacement{{Node: "n1", GPUs: 255}, {Node: "n2", GPUs: 255}}, Victims: []jobverbs.Victim{{Job: victim, Attempt: 1}},
	}}})
	require.Empty(t, r.Refused)
	w.breaksDown(victim, 0, v1.ErrorType_GPU_FAULT)
	require.True(t, w.job(urgent).Live())
	w.unheld(victim)
}
