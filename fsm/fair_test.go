package fsm_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

func (w *world) queue(name, parent string, most uint32) *kernel.Refusal {
	return do[queueverbs.QueueResult](w, queueverbs.PutQueue{Queue: work.Queue{Name: name, Parent: parent, MaxGPUs: most}}).Refusal
}

func TestQueues_areATree(t *testing.T) {
	w := newWorld(t)
	require.Nil(t, w.queue("a", "", 0))
	require.Nil(t, w.queue("b", "a", 0))
	require.Nil(t, w.queue("c", "b", 0))
	require.Equal(t, reason.New(reason.NoParentQueue, "x"), w.queue("d", "x", 0).Reason)
	require.Equal(t, reason.New(reason.QueueOfItself, "a", "c"), w.queue("a", "c", 0).Reason)
	require.Equal(t, reason.New(reason.QueueOfItself, "a", "a"), w.queue("a", "a", 0).Reason)
	require.Equal(t, reason.New(reason.QueueIsParent, "b", "c"), do[queueverbs.QueueResult](w, queueverbs.DeleteQueue{Name: "b"}).Refusal.Reason)

	// Two chains, which together are too deep.
	last := "c"
	for _, name := range []string{"d", "e", "f", "g", "h"} {
		require.Nil(t, w.queue(name, last, 0))
		last = name
	}
	require.Equal(t, reason.New(reason.QueueTooDeep, work.MaxQueueDepth), w.queue("i", "h", 0).Reason)
	require.Nil(t, w.queue("top", "", 0))
	require.Equal(t, reason.QueueTooDeep, w.queue("a", "top", 0).Reason.Code())
	require.Nil(t, w.queue("h", "top", 0))
	require.Nil(t, w.queue("a", "", 0))
	require.Equal(t, reason.QueueTooDeep, w.queue("a", "h", 0).Reason.Code())
	require.Nil(t, w.queue("c", "", 0))
	require.Nil(t, do[queueverbs.QueueResult](w, queueverbs.DeleteQueue{Name: "b"}).Refusal)
}

func TestQueues_limitsHoldOnEveryLevel(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	require.Nil(t, w.queue("org", "", 4))
	require.Nil(t, w.queue("team", "org", 0))
	require.Nil(t, w.queue("other", "org", 2))
	in := func(queue string, gpus uint16) jobverbs.NewJob {
		n := oneGPU()
		n.Queue, n.Shape.GPUs = queue, gpus
		return n
	}
	require.Empty(t, w.tryPlace(w.submit(in("team", 3)), "n1"))
	require.Contains(t, w.tryPlace(w.submit(in("other", 2)), "n1"), `the jobs of queue "org" may have 4 GPUs together`)
	one := w.submit(in("org", 1))
	require.Empty(t, w.tryPlace(one, "n1"), "jobs may be in a queue that has others below it")
	require.Equal(t, 4000, w.m.View().QueueTreeGPUs("org"))
	require.Equal(t, 1000, w.m.View().QueueGPUs("org"))
	require.Equal(t, 3000, w.m.View().QueueTreeGPUs("team"))

	// A queue that moves takes along what it has; nothing is taken away where that is too much.
	require.Nil(t, w.queue("small", "", 1))
	require.Nil(t, w.queue("team", "small", 0))
	require.Equal(t, 1000, w.m.View().QueueTreeGPUs("org"))
	require.Equal(t, 3000, w.m.View().QueueTreeGPUs("small"))
	require.Contains(t, w.tryPlace(w.submit(in("team", 1)), "n1"), `queue "small"`)
	w.do(jobverbs.ControlJob{Job: one, Action: work.ActionCancel})
	w.report(one, 0, jobverbs.ReportEnded, exit(0))
	require.Zero(t, w.m.View().QueueTreeGPUs("org"))
	again := fsm.New()
	require.NoError(t, again.Restore(bytes.NewReader(snapshotBytes(t, w.m))))
	require.Equal(t, 3000, again.View().QueueTreeGPUs("small"))
}

func account(v *fsm.View, queue, tenant, user string) *accounts.Account {
	for a := range v.Accounts() {
		if a.Key() == (accounts.Key{Queue: queue, Tenant: tenant, User: user}) {
			return a
		}
	}
	return nil
}

func TestAccounts_chargeWhatIsHeldWhileItIsHeld(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	n := oneGPU()
	n.User, n.Shape.GPUs, n.Shape.MemMB = "ann", 2, 1000
	n.Shape.CPUs = 3
	a, b := w.submit(n), w.submit(n)
	w.place(a, "n1")
	w.later(time.Hour)
	w.place(b, "n1")
	ann := account(w.m.View(), "default", "acme", "ann")
	require.Equal(t, accounts.Amount{GPUMilli: 4000, CPUs: 6, Mem: 32}, ann.Holds)
	hour := uint64(time.Hour / time.Millisecond)
	require.InEpsilon(t, 2000*hour, ann.Used.GPUMilli, 0.01)
	require.InEpsilon(t, 3*hour, ann.Used.CPUs, 0.01)
	w.later(time.Hour)
	for _, id := range []ident.Job{a, b} {
		w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel})
		w.report(id, 0, jobverbs.ReportEnded, exit(0))
	}
	ann = account(w.m.View(), "default", "acme", "ann")
	require.True(t, ann.Idle())
	require.InEpsilon(t, 6000*hour, ann.Used.GPUMilli, 0.01)

	// It fades, and is forgotten.
	due, ok := w.m.View().NextDue()
	require.True(t, ok)
	require.LessOrEqual(t, due, accounts.Expires(ann.At, accounts.Life(policy.DefaultPolicy().HalfLife)))
	w.later(69 * 24 * time.Hour)
	w.do(clusterverbs.Tick{})
	require.NotNil(t, account(w.m.View(), "default", "acme", "ann"))
	w.later(2 * 24 * time.Hour)
	w.do(clusterverbs.Tick{})
	require.Nil(t, account(w.m.View(), "default", "acme", "ann"))
}

func TestPolicy_isSetWithItsRevision(t *testing.T) {
	w := newWorld(t)
	root := &access.Actor{Tenant: "ops", User: "root"}
	p := w.m.View().Policy()
	require.Equal(t, policy.DefaultPolicy(), p)
	bad := p
	bad.HalfLife = 5
	require.Equal(t, kernel.CodeInvalidArgument, do[queueverbs.PolicyResult](w, queueverbs.PutPolicy{Policy: bad, Actor: root}).Refusal.Code)
	p.Order, p.HalfLife = policy.OrderShortest, int64(24*time.Hour)
	r := do[queueverbs.PolicyResult](w, queueverbs.PutPolicy{Policy: p, Actor: root})
	require.Nil(t, r.Refusal)
	require.Equal(t, "order ATTAINED -> SHORTEST, half_life_seconds 604800 -> 86400", r.Changed)
	require.Equal(t, w.index, w.m.View().Policy().Revision)
	require.Equal(t, kernel.CodeAborted, do[queueverbs.PolicyResult](w, queueverbs.PutPolicy{Policy: p, Actor: root}).Refusal.Code)
	require.Equal(t, "nothing", do[queueverbs.PolicyResult](w, queueverbs.PutPolicy{Policy: p, Base: r.Policy.Revision, Actor: root}).Changed)
}

// TestPolicy_aNewHalfLifeCountsFromNowOn holds that what was used before is not counted again.
func TestPolicy_aNewHalfLifeCountsFromNowOn(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.place(w.submit(oneGPU()), "n1")
	w.later(7 * 24 * time.Hour)
	p := w.m.View().Policy()
	before := account(w.m.View(), "default", "acme", oneGPU().User).Lately(w.now, accounts.Life(p.HalfLife))
	require.InDelta(t, 500, float64(before.GPUMilli)/(1<<accounts.UsageBits), 1, "of a half-life in which one GPU was held")
	p.HalfLife = int64(time.Hour)
	require.Nil(t, do[queueverbs.PolicyResult](w, queueverbs.PutPolicy{Policy: p}).Refusal)
	a := account(w.m.View(), "default", "acme", oneGPU().User)
	require.Equal(t, w.now/1e6, a.At)
	after := a.Lately(w.now, accounts.Life(p.HalfLife))
	require.InEpsilon(t, before.GPUMilli, after.GPUMilli, 1e-6, "the mean stays")
	w.later(time.Hour)
	require.InDelta(t, 750, float64(a.Lately(w.now, accounts.Life(p.HalfLife)).GPUMilli)/(1<<accounts.UsageBits), 1, "and goes on by the new half-life")
}
