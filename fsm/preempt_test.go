package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// preempt asks jobs to leave a node, of which another one gets GPUs, and says why that was refused; 0: it was not.
func (w *world) preempt(to ident.Job, node string, gpus uint64, victims ...ident.Job) reason.Code {
	p := jobverbs.Preemption{Job: to, Attempt: w.job(to).Attempt + 1, Tasks: []work.TaskPlacement{{Node: node, GPUs: gpus}}}
	for _, id := range victims {
		p.Victims = append(p.Victims, jobverbs.Victim{Job: id, Attempt: w.job(id).Attempt})
	}
	r := do[jobverbs.PreemptResult](w, jobverbs.PreemptJobs{Preemptions: []jobverbs.Preemption{p}})
	if len(r.Refused) == 0 {
		return 0
	}
	return r.Refused[0].Reason.Code()
}

// contended is a node of four GPUs with two preemptible jobs of two each, that have run for three hours.
func contended(t *testing.T) (w *world, first, second ident.Job) {
	w = newWorld(t)
	w.node("n1", 4)
	for _, id := range []*ident.Job{&first, &second} {
		n := oneGPU()
		n.Priority, n.Preemptible, n.Shape.GPUs = 3, true, 2
		*id = w.submit(n)
		w.place(*id, "n1")
		w.run(*id)
	}
	w.later(3 * time.Hour)
	return w, first, second
}

func urgent(gpus uint16) jobverbs.NewJob {
	n := oneGPU()
	n.Priority, n.Shape.GPUs = 9, gpus
	return n
}

func TestPreempt_refusals(t *testing.T) {
	w, first, second := contended(t)
	two, four := w.submit(urgent(2)), w.submit(urgent(4))
	require.Equal(t, reason.VictimNotNeeded, w.preempt(two, "n1", 3, first, second), "one of them is enough")
	require.Equal(t, reason.GPUNotFree, w.preempt(four, "n1", 15, first), "one of them is too few")
	require.Equal(t, reason.NoVictims, w.preempt(two, "n1", 3))
	require.Equal(t, reason.JobIs, w.preempt(first, "n1", 12, second), "it runs")

	policy := w.m.View().Policy()
	policy.Preemption.Enabled = false
	require.Nil(t, do[queueverbs.PolicyResult](w, queueverbs.PutPolicy{Policy: policy}).Refusal)
	equal := urgent(2)
	equal.Priority = 3
	require.Equal(t, reason.VictimNotBelow, w.preempt(w.submit(equal), "n1", 3, first))
	equal.Priority = 2
	require.Equal(t, reason.VictimNotBelow, w.preempt(w.submit(equal), "n1", 3, first))

	most := int32(1)
	w.quota(queueverbs.PutQuota{Tenant: "acme", MaxGPUs: &most})
	require.Equal(t, reason.JobBarred, w.preempt(two, "n1", 3, first), "the quota is for less than it needs")
	w.quota(queueverbs.PutQuota{Tenant: "acme"})

	// Nothing of all that was done.
	require.Zero(t, w.m.View().ClaimCount())
	for _, id := range []ident.Job{first, second} {
		require.Equal(t, v1.StopReason_UNSPECIFIED, w.job(id).Stop)
	}
	require.Zero(t, w.preempt(two, "n1", 3, first))
	require.Equal(t, reason.VictimNotRunning, w.preempt(four, "n1", 15, first, second), "it leaves for another one")
	require.Equal(t, reason.ClaimThere, w.preempt(two, "n1", 12, second))
	require.Empty(t, fsm.Check(w.publish()))
}

func TestPreempt_whoIsProtected(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	never := oneGPU()
	never.Priority, never.Shape.GPUs = 1, 1
	yields := never
	yields.Preemptible = true
	stays, fresh := w.submit(never), w.submit(yields)
	for _, id := range []ident.Job{stays, fresh} {
		w.place(id, "n1")
	}
	w.run(stays)
	w.later(24 * time.Hour)
	id := w.submit(urgent(1))
	require.Equal(t, reason.VictimNotPreemptible, w.preempt(id, "n1", 1, stays))
	w.run(fresh)
	require.Zero(t, w.preempt(id, "n1", 2, fresh), "nothing protects from a higher priority, unless an operator says so")
}

// From preemption for the sake of the order an attempt is protected for two hours, from a higher priority for as long as the
// policy says. Below the level that has two values, one counts for both.
func TestPreempt_howLongIsProtected(t *testing.T) {
	for name, x := range map[string]struct {
		at           level.Level
		fromPriority time.Duration
		priority     uint8
		until        time.Duration
	}{
		"for the order":                        {level.Newest, 0, 1, 2 * time.Hour},
		"for the order, whatever the other is": {level.Newest, 5 * time.Hour, 1, 2 * time.Hour},
		"from a higher priority":               {level.Newest, time.Hour, 9, time.Hour},
		"from a higher priority, for longer":   {level.Newest, 3 * time.Hour, 9, 3 * time.Hour},
		"from a higher priority at level 1":    {level.Released, 0, 9, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.at = x.at
			w.node("n1", 2)
			if x.fromPriority != 0 {
				p := w.m.View().Policy()
				p.Preemption.ProtectFromPriority = int64(x.fromPriority)
				require.Nil(t, do[queueverbs.PolicyResult](w, queueverbs.PutPolicy{Policy: p}).Refusal)
			}
			yields := oneGPU()
			yields.Priority, yields.Preemptible = 1, true
			victim := w.submit(yields)
			w.place(victim, "n1")
			w.run(victim)
			asks := urgent(2)
			asks.Priority = x.priority
			id := w.submit(asks)
			w.later(x.until - time.Minute)
			require.Equal(t, reason.VictimProtected, w.preempt(id, "n1", 3, victim))
			w.later(2 * time.Minute)
			require.Zero(t, w.preempt(id, "n1", 3, victim))
		})
	}
}

func TestPutPolicy_protectionFromPriorityNeedsItsLevel(t *testing.T) {
	p := policy.DefaultPolicy()
	p.Preemption.ProtectFromPriority = 1
	_, err := kernel.Encode(level.Released, queueverbs.PutPolicy{Policy: p})
	require.ErrorContains(t, err, "protect_from_priority_seconds) needs feature level 2")
	p.Preemption.ProtectFromPriority = 0
	_, err = kernel.Encode(level.Released, queueverbs.PutPolicy{Policy: p})
	require.NoError(t, err)
}

// The places are kept from the moment of the decision, also while one victim has left and another one has not; the entry in
// which the last one leaves grants them.
func TestPreempt_keepsThePlacesUntilTheyAreGranted(t *testing.T) {
	w, first, second := contended(t)
	big, other := w.submit(urgent(4)), w.submit(urgent(2))
	require.Zero(t, w.preempt(big, "n1", 15, first, second))
	for _, id := range []ident.Job{first, second} {
		require.Equal(t, v1.StopReason_PREEMPT, w.job(id).Stop)
		require.Equal(t, reason.PreemptedFor, w.job(id).Reason.Code())
	}
	w.report(first, 0, jobverbs.ReportEnded, exit(75))
	require.Equal(t, v1.JobState_QUEUED, w.job(first).State)
	require.EqualValues(t, 1, w.job(first).Retries.Preempted)
	require.Equal(t, v1.JobState_QUEUED, w.job(big).State)
	for _, id := range []ident.Job{other, first} {
		p := work.Placement{Job: id, Attempt: w.job(id).Attempt + 1, Tasks: []work.TaskPlacement{{Node: "n1", GPUs: 3}}}
		require.Len(t, do[jobverbs.PlaceResult](w, jobverbs.PlaceJobs{Placements: []work.Placement{p}}).Refused, 1, "what the first had is kept")
	}
	require.Empty(t, fsm.Check(w.publish()))
	w.report(second, 0, jobverbs.ReportEnded, exit(75))
	require.Equal(t, v1.JobState_ALLOCATED, w.job(big).State)
	require.Zero(t, w.m.View().ClaimCount())
	require.Empty(t, fsm.Check(w.publish()))
}

// A victim that has saved a checkpoint is given only a little longer, and one that does not leave keeps nothing from others.
func TestPreempt_theWindowCloses(t *testing.T) {
	w, first, second := contended(t)
	two := w.submit(urgent(2))
	require.Zero(t, w.preempt(two, "n1", 3, first))
	require.Greater(t, w.job(first).StopGrace, int64(claims.ClosingGrace))
	w.saves(first, 10)
	require.EqualValues(t, claims.ClosingGrace, w.job(first).StopGrace)
	require.Equal(t, v1.StopReason_UNSPECIFIED, w.job(second).Stop)

	w.later(time.Duration(2*w.job(first).Grace+claims.Slack) + time.Second)
	w.do(clusterverbs.Tick{})
	require.Zero(t, w.m.View().ClaimCount())
	require.Equal(t, v1.JobState_QUEUED, w.job(two).State)
	w.report(first, 0, jobverbs.ReportEnded, exit(75))
	require.Equal(t, v1.JobState_QUEUED, w.job(two).State, "it is planned as any other")
	require.Empty(t, fsm.Check(w.publish()))
}
