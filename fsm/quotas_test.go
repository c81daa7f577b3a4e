package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func limit(n int32) *int32 { return &n }

// put sets the quota of acme.
func (w *world) quota(q PutQuota) {
	q.Tenant = "acme"
	require.Nil(w.t, do[QuotaResult](w, q).Refusal)
}

// tryPlace says why a job is refused its places; empty: it has them.
func (w *world) tryPlace(id JobID, nodes ...string) string {
	r := do[PlaceResult](w, PlaceJobs{BasedOn: w.index, Placements: []Placement{w.placement(id, nodes...)}})
	if len(r.Refused) == 0 {
		return ""
	}
	require.Equal(w.t, CodeResourceExhausted, r.Refused[0].Code)
	return r.Refused[0].Message
}

func TestQuotas_holdWhatIsGranted(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	w.quota(PutQuota{MaxGPUs: limit(3), MaxRunning: limit(3)})
	two, gang2, part := oneGPU(), oneGPU(), oneGPU()
	gang2.Shape.Nodes = 2
	two.Shape.GPUs = 2
	part.Shape = Shape{Nodes: 1, FractionMilli: 500}
	a, b, c, d, e := w.submit(two), w.submit(gang2), w.submit(part), w.submit(part), w.submit(part)
	require.Empty(t, w.tryPlace(a, "n1"))
	require.Contains(t, w.tryPlace(b, "n1", "n2"), "tenant quota: 2 of 3 GPUs in use, and it needs 2")
	require.Empty(t, w.tryPlace(c, "n2"))
	require.Empty(t, w.tryPlace(d, "n2"))
	require.Contains(t, w.tryPlace(e, "n2"), "tenant quota: 3 of 3 jobs running")
	require.Equal(t, Usage{GPUMilli: 3000, Running: 3, Unfinished: 5}, w.m.View().Usage("acme"))
	w.quota(PutQuota{MaxGPUs: limit(3)})
	require.Contains(t, w.tryPlace(e, "n2"), "tenant quota: 3 of 3 GPUs in use")
	none := oneGPU()
	none.Shape = Shape{Nodes: 1, CPUs: 1}
	require.Empty(t, w.tryPlace(w.submit(none), "n1"), "GPUs are no reason to refuse a job that needs none")
	other := oneGPU()
	other.Tenant = "umbrella"
	require.Empty(t, w.tryPlace(w.submit(other), "n1"), "what holds for one tenant is nothing to another")

	w.do(ControlJob{Job: c, Action: ActionCancel})
	w.report(c, 0, ReportEnded, exit(0))
	require.Empty(t, w.tryPlace(e, "n2"), "what ended has made room")

	w.quota(PutQuota{MaxGPUs: limit(1)})
	require.Equal(t, 3000, w.m.View().Usage("acme").GPUMilli, "nothing is taken away")
	require.Contains(t, w.tryPlace(b, "n1", "n2"), "2 GPUs, and 1 is all that the tenant may have")
	require.Nil(t, do[QuotaResult](w, DeleteQuota{Tenant: "acme"}).Refusal)
	require.Empty(t, w.tryPlace(b, "n1", "n2"))
	require.Equal(t, CodeNotFound, do[QuotaResult](w, DeleteQuota{Tenant: "acme"}).Refusal.Code)
}

func TestQuotas_refused(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]PutQuota{
		"no tenant":    {MaxGPUs: limit(1)},
		"less than 0":  {Tenant: "acme", MaxJobs: limit(-1)},
		"a long name":  {Tenant: string(make([]byte, 300))},
		"a long maker": {Tenant: "acme", By: string(make([]byte, 300))},
	} {
		require.Equal(t, CodeInvalidArgument, do[QuotaResult](w, c).Refusal.Code, name)
	}
	require.Zero(t, w.m.View().quotas.rows.len())
}

func TestQuotas_unfinishedJobs(t *testing.T) {
	w := newWorld(t)
	w.quota(PutQuota{MaxJobs: limit(2)})
	a, _ := w.submit(oneGPU()), w.submit(oneGPU())
	res := do[SubmitJobsResult](w, SubmitJobs{Jobs: []NewJob{oneGPU()}}).Results[0].Refusal
	require.Equal(t, CodeResourceExhausted, res.Code)
	require.True(t, res.Quota)
	require.Contains(t, res.Message, "2 of 2 unfinished jobs")
	w.do(ControlJob{Job: a, Action: ActionCancel})
	w.submit(oneGPU())
	again := do[ControlResult](w, ControlJob{Job: a, Action: ActionRetry})
	require.NotNil(t, again.Refusal, "a retried job is unfinished again")
	require.True(t, again.Refusal.Quota)
	w.quota(PutQuota{MaxJobs: limit(0)})
	require.Equal(t, 2, w.m.View().Usage("acme").Unfinished)
	require.NotNil(t, do[SubmitJobsResult](w, SubmitJobs{Jobs: []NewJob{oneGPU()}}).Results[0].Refusal)
}

func TestQueues_limit(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.do(PutQueue{Queue: Queue{Name: "small", MaxGPUs: 2}})
	in := func(tenant string) NewJob {
		n := oneGPU()
		n.Queue, n.Tenant = "small", tenant
		return n
	}
	a, b, c := w.submit(in("acme")), w.submit(in("umbrella")), w.submit(in("acme"))
	require.Empty(t, w.tryPlace(a, "n1"))
	require.Empty(t, w.tryPlace(b, "n1"))
	require.Contains(t, w.tryPlace(c, "n1"), `the jobs of queue "small" may have 2 GPUs together`)
	w.do(PutQueue{Queue: Queue{Name: "small", MaxGPUs: 1}})
	require.Equal(t, 2000, w.m.View().QueueGPUs("small"))
	w.do(PutQueue{Queue: Queue{Name: "small"}})
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
	w.quota(PutQuota{MaxGPUs: limit(0)})
	v = w.m.View()
	require.Equal(t, "acme", v.ClassOf(w.job(a)).Tenant)
	require.Empty(t, v.ClassOf(w.job(b)).Tenant)
	w.do(PlaceJobs{BasedOn: w.index, Reasons: []ClassReason{{v.ClassOf(w.job(a)), "tenant quota: 0 of 0 GPUs in use"}}})
	require.Empty(t, w.m.View().ClassReason(v.ClassOf(w.job(b))))
	c := w.submit(mine)
	require.Equal(t, []JobID{a, c}, classIDs(w.m.View(), v.ClassOf(w.job(a))))
	restored := New()
	require.NoError(t, restored.Restore(w.image()))
	sameState(t, w.m, restored)
	require.Empty(t, Check(restored.View()))
	require.Equal(t, []JobID{a, c}, classIDs(restored.View(), v.ClassOf(w.job(a))))
	w.do(DeleteQuota{Tenant: "acme"})
	require.Equal(t, []JobID{a, b, c}, classIDs(w.m.View(), w.m.View().ClassOf(w.job(b))))
}

func classIDs(v *View, key ClassKey) []JobID {
	var ids []JobID
	for j := range v.ClassJobs(key) {
		ids = append(ids, j.ID)
	}
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
			var c Command
			switch g.n("kind", 0, 5) {
			case 0:
				c = g.quotaCommand()
			case 1:
				c = PutQueue{Queue: Queue{Name: g.queue(), MaxGPUs: uint32(pick(g, "queue gpus", 0, 1, 3))}}
			case 2:
				c = SubmitJobs{Jobs: []NewJob{g.newJob(), g.newJob()}}
			case 3:
				c = g.plan()
			default:
				c = g.command()
			}
			before := g.w.m.View()
			g.w.do(c)
			after := g.w.m.View()
			for _, tenant := range []string{"acme", "umbrella"} {
				require.Equal(t, after.Usage(tenant), g.w.m.st.work.totalOf(tenant).usage(), "what place goes by")
				q, ok := after.Quota(tenant)
				if !ok {
					continue
				}
				was, is := before.Usage(tenant), after.Usage(tenant)
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
				if q.MaxGPUs != 0 {
					require.LessOrEqual(t, after.QueueGPUs(q.Name), max(before.QueueGPUs(q.Name), 1000*int(q.MaxGPUs)), "I7: GPUs of queue %s after %T", q.Name, c)
				}
			}
		}
	})
}

func (g *generator) quotaCommand() Command {
	if g.n("delete", 0, 4) == 0 {
		return DeleteQuota{Tenant: g.tenant(), Actor: g.actor()}
	}
	some := func(what string) *int32 {
		if g.yes(what + "?") {
			return nil
		}
		return limit(int32(g.n(what, 0, 4)))
	}
	return PutQuota{Tenant: g.tenant(), MaxGPUs: some("gpus"), MaxRunning: some("running"), MaxJobs: some("jobs"), By: "root", Actor: g.actor()}
}

// actor is somebody, or nobody.
func (g *generator) actor() *Actor {
	if g.yes("nobody") {
		return nil
	}
	return &Actor{Tenant: g.tenant(), User: pick(g, "user", "ada", ""), Token: TokenID(g.n("token", 0, 1)), Request: pick(g, "request", "", "r1")}
}

// TestCheck_seesAQuotaThatWasExceeded holds that the check of I7 can fail, in each of its parts.
func TestCheck_seesAQuotaThatWasExceeded(t *testing.T) {
	for name, q := range map[string]Quota{
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
			w.m.st.setQuota("acme", &q)
			require.Contains(t, Check(w.m.publish())[0], "I7")
			q.Revision = w.index
			w.m.st.setQuota("acme", &q)
			require.Empty(t, Check(w.m.publish()), "the limit came later")
		})
	}
	w := newWorld(t)
	w.node("n1", 8)
	two := oneGPU()
	two.Shape.GPUs = 2
	w.place(w.submit(two), "n1")
	w.m.st.queues.rows.put(DefaultQueue, &Queue{Name: DefaultQueue, Weight: 1, MaxGPUs: 1, Revision: 1})
	require.Contains(t, Check(w.m.publish())[0], "I7")
}
