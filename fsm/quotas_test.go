package fsm_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/typed"
)

func limit(n int32) *int32 { return &n }

// put sets the quota of acme.
func (w *world) quota(q queueverbs.PutQuota) {
	q.Tenant = "acme"
	require.Nil(w.t, do[queueverbs.QuotaResult](w, q).Refusal)
}

// tryPlace says why a job is refused its places; empty: it has them.
func (w *world) tryPlace(id ident.Job, nodes ...string) string {
	r := do[jobverbs.PlaceResult](w, jobverbs.PlaceJobs{BasedOn: w.index, Placements: []work.Placement{w.placement(id, nodes...)}})
	if len(r.Refused) == 0 {
		return ""
	}
	require.Equal(w.t, kernel.CodeResourceExhausted, r.Refused[0].Code)
	return words.Of(r.Refused[0].Reason)
}

func TestQuotas_holdWhatIsGranted(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	w.quota(queueverbs.PutQuota{MaxGPUs: limit(3), MaxRunning: limit(3)})
	two, gang2, part := oneGPU(), oneGPU(), oneGPU()
	gang2.Shape.Nodes = 2
	two.Shape.GPUs = 2
	part.Shape = work.Shape{Nodes: 1, FractionMilli: 500}
	a, b, c, d, e := w.submit(two), w.submit(gang2), w.submit(part), w.submit(part), w.submit(part)
	require.Empty(t, w.tryPlace(a, "n1"))
	require.Contains(t, w.tryPlace(b, "n1", "n2"), "tenant quota: 2 of 3 GPUs in use, and it needs 2")
	require.Empty(t, w.tryPlace(c, "n2"))
	require.Empty(t, w.tryPlace(d, "n2"))
	require.Contains(t, w.tryPlace(e, "n2"), "tenant quota: 3 of 3 jobs running")
	require.Equal(t, work.Usage{GPUMilli: 3000, Running: 3, Unfinished: 5, Submissions: 5, SpecBytes: 20}, w.m.View().Usage("acme"))
	w.quota(queueverbs.PutQuota{MaxGPUs: limit(3)})
	require.Contains(t, w.tryPlace(e, "n2"), "tenant quota: 3 of 3 GPUs in use")
	none := oneGPU()
	none.Shape = work.Shape{Nodes: 1, CPUs: 1}
	require.Empty(t, w.tryPlace(w.submit(none), "n1"), "GPUs are no reason to refuse a job that needs none")
	other := oneGPU()
	other.Tenant = "umbrella"
	require.Empty(t, w.tryPlace(w.submit(other), "n1"), "what holds for one tenant is nothing to another")

	w.do(jobverbs.ControlJob{Job: c, Action: work.ActionCancel})
	w.report(c, 0, jobverbs.ReportEnded, exit(0))
	require.Empty(t, w.tryPlace(e, "n2"), "what ended has made room")

	w.quota(queueverbs.PutQuota{MaxGPUs: limit(1)})
	require.Equal(t, 3000, w.m.View().Usage("acme").GPUMilli, "nothing is taken away")
	require.Contains(t, w.tryPlace(b, "n1", "n2"), "it needs 2 GPUs, and the tenant may have 1")
	require.Nil(t, do[queueverbs.QuotaResult](w, queueverbs.DeleteQuota{Tenant: "acme"}).Refusal)
	require.Empty(t, w.tryPlace(b, "n1", "n2"))
	require.Equal(t, kernel.CodeNotFound, do[queueverbs.QuotaResult](w, queueverbs.DeleteQuota{Tenant: "acme"}).Refusal.Code)
}

func TestQuotas_refused(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]queueverbs.PutQuota{
		"no tenant":    {MaxGPUs: limit(1)},
		"less than 0":  {Tenant: "acme", MaxJobs: limit(-1)},
		"a long name":  {Tenant: string(make([]byte, 300))},
		"a long maker": {Tenant: "acme", By: string(make([]byte, 300))},
	} {
		require.Equal(t, kernel.CodeInvalidArgument, do[queueverbs.QuotaResult](w, c).Refusal.Code, name)
	}
	require.Empty(t, slices.Collect(w.m.View().Quotas()))
}

func TestQuotas_unfinishedJobs(t *testing.T) {
	w := newWorld(t)
	w.quota(queueverbs.PutQuota{MaxJobs: limit(2)})
	a, _ := w.submit(oneGPU()), w.submit(oneGPU())
	res := do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{oneGPU()}}).Results[0].Refusal
	require.Equal(t, kernel.CodeResourceExhausted, res.Code)
	require.True(t, res.Quota)
	require.Contains(t, words.Of(res.Reason), "2 of 2 unfinished jobs")
	w.do(jobverbs.ControlJob{Job: a, Action: work.ActionCancel})
	w.submit(oneGPU())
	again := do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: a, Action: work.ActionRetry})
	require.NotNil(t, again.Refusal, "a retried job is unfinished again")
	require.True(t, again.Refusal.Quota)
	w.quota(queueverbs.PutQuota{MaxJobs: limit(0)})
	require.Equal(t, 2, w.m.View().Usage("acme").Unfinished)
	require.NotNil(t, do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{oneGPU()}}).Results[0].Refusal)
}

func TestQueues_limit(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.do(queueverbs.PutQueue{Queue: work.Queue{Name: "small", MaxGPUs: 2}})
	in := func(tenant string) jobverbs.NewJob {
		n := oneGPU()
		n.Queue, n.Tenant = "small", tenant
		return n
	}
	a, b, c := w.submit(in("acme")), w.submit(in("umbrella")), w.submit(in("acme"))
	require.Empty(t, w.tryPlace(a, "n1"))
	require.Empty(t, w.tryPlace(b, "n1"))
	require.Contains(t, w.tryPlace(c, "n1"), `the jobs of queue "small" may have 2 GPUs together`)
	w.do(queueverbs.PutQueue{Queue: work.Queue{Name: "small", MaxGPUs: 1}})
	require.Equal(t, 2000, w.m.View().QueueGPUs("small"))
	w.do(queueverbs.PutQueue{Queue: work.Queue{Name: "small"}})
	require.Empty(t, w.tryPlace(c, "n1"))
}

// TestQuotas_waitingJobsChangeClasses holds that the jobs of a tenant are in classes of their own from the moment that it
// has a quota, so that a reason given for them is told to nobody else.
func TestQuotas_waitingJobsChangeClasses(t *testing.T) {
	w := newWorld(t)
	mine, theirs := oneGPU(), oneGPU()
	theirs.Tenant = "umbrella"
	a, b := w.submit(mine), w.submit(theirs)
	v := w.m.View()
	require.Equal(t, v.ClassOf(w.job(a)), v.ClassOf(w.job(b)))
	w.quota(queueverbs.PutQuota{MaxGPUs: limit(0)})
	v = w.m.View()
	require.Equal(t, "acme", v.ClassOf(w.job(a)).Tenant)
	require.Empty(t, v.ClassOf(w.job(b)).Tenant)
	w.do(jobverbs.PlaceJobs{BasedOn: w.index, Reasons: []jobverbs.ClassReason{{Class: v.ClassOf(w.job(a)), Reason: "tenant quota: 0 of 0 GPUs in use"}}})
	require.Empty(t, w.m.View().ClassReason(v.ClassOf(w.job(b))))
	c := w.submit(mine)
	require.Equal(t, []ident.Job{a, c}, classIDs(w.m.View(), v.ClassOf(w.job(a))))
	restored := fsm.New()
	require.NoError(t, restored.Restore(w.image()))
	sameState(t, w.m, restored)
	require.Empty(t, fsm.Check(restored.View()))
	require.Equal(t, []ident.Job{a, c}, classIDs(restored.View(), v.ClassOf(w.job(a))))
	w.do(queueverbs.DeleteQuota{Tenant: "acme"})
	require.Equal(t, []ident.Job{a, b, c}, classIDs(w.m.View(), w.m.View().ClassOf(w.job(b))))
}

func classIDs(v *fsm.View, key work.ClassKey) []ident.Job {
	var ids []ident.Job
	for j := range v.ClassJobs(key) {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	return ids
}

// TestQuotas_neverExceededByAGrant is I7 over a whole history: whatever comes in whatever order, no entry leaves a tenant
// or a queue with more than its limit unless it had at least as much before, and the limit came later.
func TestQuotas_neverExceededByAGrant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{T: t, w: newWorld(t)}
		g.w.node("n1", 8)
		g.w.node("n2", 8)
		for range rapid.IntRange(5, 40).Draw(t, "entries") {
			var c kernel.Command
			switch g.n("kind", 0, 5) {
			case 0:
				c = g.quotaCommand()
			case 1:
				c = queueverbs.PutQueue{Queue: work.Queue{Name: g.queue(), MaxGPUs: uint32(pick(g, "queue gpus", 0, 1, 3)), MaxByType: g.typeLimits()}}
			case 2:
				c = jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{g.newJob(), g.newJob()}}
			case 3:
				c = g.plan()
			default:
				c = g.command()
			}
			before := g.w.m.View()
			g.w.do(c)
			after := g.w.m.View()
			for _, tenant := range []string{"acme", "umbrella"} {
				require.Equal(t, after.Usage(tenant), g.w.tables().UsageNow(tenant), "what place goes by")
				q, ok := after.Quota(tenant)
				if !ok {
					continue
				}
				was, is := before.Usage(tenant), after.Usage(tenant)
				if most, ok := q.MaxByType.Of("H100"); ok {
					require.LessOrEqual(t, after.HeldOfType(tenant, "H100"), max(before.HeldOfType(tenant, "H100"), 1000*int(most)), "I7: H100s of %s after %T", tenant, c)
				}
				if q.MaxGPUHours != nil && before.Budget(tenant).SpentBy(after.Now()) >= uint64(*q.MaxGPUHours)*budgets.Hour {
					require.LessOrEqual(t, is.GPUMilli, was.GPUMilli, "I16: GPUs of %s after %T", tenant, c)
				}
				if q.MaxGPUs != nil {
					require.LessOrEqual(t, is.GPUMilli, max(was.GPUMilli, 1000*int(*q.MaxGPUs)), "I7: GPUs of %s after %T", tenant, c)
				}
				if q.MaxRunning != nil {
					require.LessOrEqual(t, is.Running, max(was.Running, int(*q.MaxRunning)), "I7: running jobs of %s after %T", tenant, c)
				}
				if q.MaxJobs != nil {
					require.LessOrEqual(t, is.Unfinished, max(was.Unfinished, int(*q.MaxJobs)), "I7: jobs of %s after %T", tenant, c)
				}
			}
			for q := range after.Queues() {
				if most, ok := q.MaxByType.Of("H100"); ok && q.Moved == 0 {
					require.LessOrEqual(t, after.QueueTreeOfType(q.Name, "H100"), max(before.QueueTreeOfType(q.Name, "H100"), 1000*int(most)), "I7: H100s of queue %s after %T", q.Name, c)
				}
				if q.MaxGPUs != 0 {
					require.LessOrEqual(t, after.QueueGPUs(q.Name), max(before.QueueGPUs(q.Name), 1000*int(q.MaxGPUs)), "I7: GPUs of queue %s after %T", q.Name, c)
				}
			}
		}
	})
}

func (g *generator) quotaCommand() kernel.Command {
	if g.n("delete", 0, 4) == 0 {
		return queueverbs.DeleteQuota{Tenant: g.tenant(), Actor: g.actor()}
	}
	some := func(what string) *int32 {
		if g.yes(what + "?") {
			return nil
		}
		return limit(int32(g.n(what, 0, 4)))
	}
	return queueverbs.PutQuota{Tenant: g.tenant(), MaxGPUs: some("gpus"), MaxRunning: some("running"), MaxJobs: some("jobs"), MaxGPUHours: some("hours"), MaxByType: g.typeLimits(), MaxSubmissions: some("submissions"), By: "root", Actor: g.actor()}
}

func (g *generator) typeLimits() typed.Limits {
	if g.yes("by type?") {
		return nil
	}
	return typed.Limits{{Type: "h100", GPUs: int32(g.n("of type", 0, 4))}}
}

// actor is somebody, or nobody.
func (g *generator) actor() *access.Actor {
	if g.yes("nobody") {
		return nil
	}
	return &access.Actor{Tenant: g.tenant(), User: pick(g, "user", "ada", ""), Token: ident.Token(g.n("token", 0, 1)), Request: pick(g, "request", "", "r1")}
}

// TestCheck_seesAQuotaThatWasExceeded holds that the check of I7 can fail, in each of its parts.
func TestCheck_seesAQuotaThatWasExceeded(t *testing.T) {
	for name, q := range map[string]work.Quota{
		"GPUs":            {MaxGPUs: limit(0)},
		"running jobs":    {MaxRunning: limit(0)},
		"unfinished jobs": {MaxJobs: limit(0)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			id := w.submit(oneGPU())
			w.place(id, "n1")
			q.Tenant, q.Revision = "acme", 1 // Before any of it: the machine would have refused it.
			w.tables().SetQuota("acme", &q)
			require.Contains(t, fsm.Check(w.publish())[0], "I7")
			q.Revision = w.index
			w.tables().SetQuota("acme", &q)
			require.Empty(t, fsm.Check(w.publish()), "the limit came later")
		})
	}
	w := newWorld(t)
	w.node("n1", 8)
	two := oneGPU()
	two.Shape.GPUs = 2
	w.place(w.submit(two), "n1")
	w.tables().SetQueue(&work.Queue{Name: work.DefaultQueue, Weight: 1, MaxGPUs: 1, Revision: 1})
	require.Contains(t, fsm.Check(w.publish())[0], "I7")
}

// TestTypes_aNodeThatComesBackHasWhatItsGangHolds holds that a lease counts by type again when its node, which was forgotten while
// other ranks of the gang still run, registers once more.
func TestTypes_aNodeThatComesBackHasWhatItsGangHolds(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.submit(gang(2))
	w.place(id, "n1", "n2")
	w.run(id)
	require.Equal(t, 4000, w.m.View().HeldOfType("acme", "H100"))
	w.do(nodeverbs.SetNode{ID: "n2", Action: nodeverbs.NodeForget})
	require.Equal(t, 2000, w.m.View().HeldOfType("acme", "H100"), "a node that is not there has no type")
	w.node("n2", 8)
	require.Equal(t, 4000, w.m.View().HeldOfType("acme", "H100"))
	require.Empty(t, fsm.Check(w.m.View()))
}
