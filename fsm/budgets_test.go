package fsm_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/typed"
)

func TestQuotas_byTypeOfGPU(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	old := testNode("n2", "b1", 8)
	for i := range old.GPUs {
		old.GPUs[i].Type, old.GPUs[i].Model = "A100", "NVIDIA A100"
	}
	w.do(nodeverbs.RegisterNode{Node: old})
	w.quota(queueverbs.PutQuota{MaxByType: typed.Limits{{Type: "h100", GPUs: 2}}})
	two := oneGPU()
	two.Shape.GPUs = 2
	a, b := w.submit(two), w.submit(two)
	require.Empty(t, w.tryPlace(a, "n1"))
	require.Contains(t, w.tryPlace(b, "n1"), "tenant quota: 2 of 2 H100 GPUs in use, and it needs 2")
	require.Empty(t, w.tryPlace(b, "n2"), "the quota is about another type")
	require.Equal(t, 2000, w.m.View().HeldOfType("acme", "H100"))
	require.Equal(t, 2000, w.m.View().QueueTreeOfType("default", "A100"))

	w.do(queueverbs.PutQueue{Queue: work.Queue{Name: "default", MaxByType: typed.Limits{{Type: "A100", GPUs: 3}}}})
	c := w.submit(two)
	require.Contains(t, w.tryPlace(c, "n2"), `the jobs of queue "default" may have 3 A100 GPUs together`)
	require.Empty(t, fsm.Check(w.publish()))

	restored := fsm.New()
	require.NoError(t, restored.Restore(w.image()))
	require.Equal(t, 2000, restored.View().HeldOfType("acme", "A100"))
	sameState(t, w.m, restored)

	for i := range old.GPUs {
		old.GPUs[i].Type, old.GPUs[i].Model = "L4", "NVIDIA L4"
	}
	w.do(nodeverbs.RegisterNode{Node: old, Tasks: []work.TaskRef{w.ref(b, 0)}})
	require.Zero(t, w.m.View().HeldOfType("acme", "A100"), "counted again by what the node has now")
	require.Equal(t, 2000, w.m.View().HeldOfType("acme", "L4"))
	require.Empty(t, fsm.Check(w.publish()))

	bad := do[queueverbs.QuotaResult](w, queueverbs.PutQuota{Tenant: "acme", MaxByType: typed.Limits{{Type: "H100"}, {Type: "h100"}}})
	require.Equal(t, reason.BadTypeLimits, bad.Refusal.Reason.Code())
}

func TestQuotas_gpuHoursOfAMonth(t *testing.T) {
	w := newWorld(t)
	w.now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC).UnixNano()
	w.node("n1", 8)
	w.node("n2", 1)
	four := oneGPU()
	four.Shape.GPUs = 4
	w.quota(queueverbs.PutQuota{MaxGPUHours: limit(10)})
	a, b := w.submit(four), w.submit(four)
	require.Empty(t, w.tryPlace(a, "n1"))
	w.later(2 * time.Hour)
	require.Empty(t, w.tryPlace(b, "n1"), "8 of 10 hours are used")
	w.later(time.Hour)
	c := w.submit(oneGPU())
	require.Contains(t, w.tryPlace(c, "n2"), "tenant quota: 16 of 10 hours of GPU time used in this month; jobs with GPUs start again on 2026-02-01")
	require.True(t, w.job(a).Live(), "who runs is not stopped")
	none := oneGPU()
	none.Shape = work.Shape{Nodes: 1, CPUs: 1}
	require.Empty(t, w.tryPlace(w.submit(none), "n1"), "GPU hours are no reason to refuse a job without GPUs")
	require.Empty(t, fsm.Check(w.publish()))

	restored := fsm.New()
	require.NoError(t, restored.Restore(w.image()))
	sameState(t, w.m, restored)

	w.later(9 * time.Hour) // Midnight.
	w.do(clusterverbs.Tick{Settled: true})
	spent := w.m.View().Budget("acme").SpentBy(w.now)
	require.Less(t, spent, budgets.Hour, "a new month")
	w.run(a)
	w.run(b)
	w.report(a, 0, jobverbs.ReportEnded, exit(0))
	require.Empty(t, w.tryPlace(c, "n2"))
	w.run(c)
	w.report(b, 0, jobverbs.ReportEnded, exit(0))
	w.later(time.Hour)
	w.report(c, 0, jobverbs.ReportEnded, exit(0))
	require.Equal(t, budgets.Hour, (w.m.View().Budget("acme").SpentBy(w.now)-spent)/budgets.Hour*budgets.Hour)
	require.Empty(t, fsm.Check(w.publish()))
	w.later(40 * 24 * time.Hour)
	w.do(clusterverbs.Tick{Settled: true})
	require.Nil(t, w.m.View().Budget("acme"), "who held nothing is forgotten with the month")

	// The check can fail.
	w.tables().SetQuota("acme", &work.Quota{Tenant: "acme", MaxGPUHours: limit(1), Revision: 1})
	budgets.Put(&w.tables().Meter, &budgets.Budget{Tenant: "acme", Granted: w.index, Before: 2 * budgets.Hour})
	require.Contains(t, fsm.Check(w.publish()), "work: I16: tenant \"acme\" was granted GPUs at index "+strconv.FormatUint(w.index, 10)+", after 2 GPU hours of 1 in the month")
}

func (w *world) guaranteed(name, parent string, gpus uint32) *kernel.Refusal {
	return do[queueverbs.QueueResult](w, queueverbs.PutQueue{Queue: work.Queue{Name: name, Parent: parent, Guaranteed: gpus}}).Refusal
}

func TestQueues_guaranteeOfPartsIsThatOfTheWhole(t *testing.T) {
	w := newWorld(t)
	require.Nil(t, w.guaranteed("research", "", 8))
	require.Nil(t, w.guaranteed("text", "research", 6))
	require.Equal(t, reason.GuaranteeTooLarge, w.guaranteed("vision", "research", 4).Reason.Code())
	require.Nil(t, w.guaranteed("vision", "research", 2))
	require.Equal(t, reason.GuaranteeTooLarge, w.guaranteed("research", "", 7).Reason.Code())
	require.Equal(t, reason.GuaranteeTooLarge, w.guaranteed("code", "default", 1).Reason.Code(), "a part of a queue without a guarantee")
	require.Nil(t, w.guaranteed("vision", "", 20))
	require.Equal(t, reason.GuaranteeTooLarge, w.guaranteed("vision", "research", 20).Reason.Code(), "nor when it moves there")
	require.Empty(t, fsm.Check(w.publish()))
}

// reclaim asks a job to give back its node to another one.
func (w *world) reclaim(to, from work.Job, reclaim bool) reason.Code {
	r := do[jobverbs.PreemptResult](w, jobverbs.PreemptJobs{Preemptions: []jobverbs.Preemption{{
		Job: to.ID, Attempt: to.Attempt + 1, Victims: []jobverbs.Victim{{Job: from.ID, Attempt: from.Attempt}},
		Tasks: []work.TaskPlacement{{Node: from.Tasks[0].Node, GPUs: from.Tasks[0].GPUs}}, Reclaim: reclaim,
	}}})
	if len(r.Refused) == 0 {
		return 0
	}
	return r.Refused[0].Reason.Code()
}

// A job within a guarantee takes back what others have borrowed, whatever their priority and however short they have run; what
// is within a guarantee is taken for nobody else.
func TestPreempt_reclaimsWhatIsGuaranteed(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.node("n2", 1)
	require.Nil(t, w.guaranteed("prod", "", 4))
	require.Nil(t, w.guaranteed("lab", "", 0))
	in := func(queue string, priority uint8, gpus uint16) jobverbs.NewJob {
		n := oneGPU()
		n.Queue, n.Priority, n.Shape.GPUs, n.Preemptible = queue, priority, gpus, true
		return n
	}
	borrower := w.submit(in("lab", 10, 4))
	w.place(borrower, "n1")
	w.run(borrower)
	owner, large := w.submit(in("prod", 1, 4)), w.submit(in("prod", 1, 5))
	require.Equal(t, reason.VictimNotBelow, w.reclaim(*w.job(owner), *w.job(borrower), false))
	require.Equal(t, reason.NotGuaranteed, w.reclaim(*w.job(w.submit(in("lab", 1, 4))), *w.job(borrower), true))
	big := w.job(large)
	require.NotZero(t, w.reclaim(*big, *w.job(borrower), true))
	require.Zero(t, w.reclaim(*w.job(owner), *w.job(borrower), true))
	require.Equal(t, reason.ReclaimedFor, w.job(borrower).Reason.Code())
	require.Equal(t, "prod", w.job(borrower).Reason.Params()[0].Text)
	again, small := w.submit(in("prod", 1, 1)), w.submit(in("lab", 1, 1))
	w.place(small, "n2")
	require.Equal(t, reason.NotGuaranteed, w.reclaim(*w.job(again), *w.job(small), true), "what is kept for a job counts as held")
	require.Empty(t, fsm.Check(w.publish()))
	w.report(borrower, 0, jobverbs.ReportEnded, exit(75))
	require.True(t, w.job(owner).Live())

	w.run(owner)
	w.later(3 * time.Hour)
	urgent := w.submit(in("lab", 10, 4))
	require.Equal(t, reason.VictimGuaranteed, w.reclaim(*w.job(urgent), *w.job(owner), false))
	own := w.submit(in("prod", 10, 4))
	require.Zero(t, w.reclaim(*w.job(own), *w.job(owner), false), "inside a queue priorities hold")
	require.Empty(t, fsm.Check(w.publish()))
}
