package fsm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/bounds"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// fill submits jobs of acme, so many in one entry.
func (w *world) fill(n int, like jobverbs.NewJob) []jobverbs.SubmitResult {
	jobs := make([]jobverbs.NewJob, n)
	for i := range jobs {
		jobs[i] = like
	}
	return do[jobverbs.SubmitJobsResult](w, jobverbs.SubmitJobs{Jobs: jobs}).Results
}

// barred holds that a refusal is that of a bound, which its tenant may have raised.
func barred(t *testing.T, r *kernel.Refusal, says string) {
	t.Helper()
	require.NotNil(t, r)
	require.Equal(t, kernel.CodeResourceExhausted, r.Code)
	require.True(t, r.Quota)
	require.Contains(t, words.Of(r.Reason), says)
}

func array(size uint32) jobverbs.NewJob {
	n := oneGPU()
	n.Array = &jobverbs.NewArray{End: size - 1}
	return n
}

func TestBounds_submissionsOfATenant(t *testing.T) {
	w := newWorld(t)
	keyed := oneGPU()
	keyed.Key, keyed.Fingerprint = "first", 1
	first := w.submit(keyed)
	require.Nil(t, w.fill(1, array(100_000))[0].Refusal, "an array is one")
	results := w.fill(bounds.Submissions-1, oneGPU())
	require.Nil(t, results[bounds.Submissions-3].Refusal)
	barred(t, results[bounds.Submissions-2].Refusal, "tenant bound: 10000 of 10000 unfinished submissions")
	require.Contains(t, words.Of(results[bounds.Submissions-2].Refusal.Reason), "mind quota set acme --max-submissions")
	require.Equal(t, bounds.Submissions, w.m.View().Usage("acme").Submissions)

	again := w.trySubmit(func(n *jobverbs.NewJob) { *n = keyed })
	require.Nil(t, again.Refusal, "a repeat is answered")
	require.True(t, again.Duplicate)
	require.Equal(t, first, again.Job)
	require.Nil(t, w.trySubmit(func(n *jobverbs.NewJob) { n.Tenant = "umbrella" }).Refusal, "what one tenant has is nothing to another")

	w.do(jobverbs.ControlJob{Job: first, Action: work.ActionCancel})
	w.submit(oneGPU())
	r := do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: first, Action: work.ActionRetry})
	barred(t, r.Refusal, "10000 of 10000 unfinished submissions")

	w.quota(queueverbs.PutQuota{MaxSubmissions: limit(bounds.None)})
	require.False(t, w.m.View().Limited("acme"), "bounds keep no job waiting: its jobs stay in the classes of all")
	require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: first, Action: work.ActionRetry}).Refusal)
	w.quota(queueverbs.PutQuota{MaxSubmissions: limit(3)})
	barred(t, w.fill(1, oneGPU())[0].Refusal, "10001 of 3 unfinished submissions")
	w.quota(queueverbs.PutQuota{MaxGPUs: limit(8)})
	require.True(t, w.m.View().Limited("acme"))
	barred(t, w.fill(1, oneGPU())[0].Refusal, "10001 of 10000 unfinished submissions")
	require.Nil(t, do[queueverbs.QuotaResult](w, queueverbs.DeleteQuota{Tenant: "acme"}).Refusal)
	barred(t, w.fill(1, oneGPU())[0].Refusal, "10001 of 10000 unfinished submissions")
}

func TestBounds_specsOfATenant(t *testing.T) {
	w := newWorld(t)
	w.quota(queueverbs.PutQuota{MaxSpecMB: limit(1)})
	large := oneGPU()
	large.Spec = make([]byte, 256<<10)
	results := w.fill(5, large)
	require.Nil(t, results[3].Refusal)
	barred(t, results[4].Refusal, "have 1 of 1 MiB, and this one has 262144 more bytes")
	require.Equal(t, 1<<20, w.m.View().Usage("acme").SpecBytes)
	require.Nil(t, w.trySubmit(func(n *jobverbs.NewJob) { n.Spec = nil }).Refusal, "without a spec it is no more")

	id := results[0].Job
	digest := jobverbs.SpecDigest(large.Spec)
	grow := jobverbs.UpdateJob{Job: id, Was: digest, Set: jobverbs.SetName, To: jobverbs.NewJob{Name: "x", Spec: append(large.Spec, 1)}}
	barred(t, do[jobverbs.ControlResult](w, grow).Refusal, "this one has 1 more byte;")
	grow.To.Spec = large.Spec[:5]
	require.Nil(t, do[jobverbs.ControlResult](w, grow).Refusal, "it may shrink")
	require.Equal(t, 3<<18+5, w.m.View().Usage("acme").SpecBytes)

	w.do(jobverbs.ControlJob{Job: results[1].Job, Action: work.ActionCancel})
	require.Equal(t, 2<<18+5, w.m.View().Usage("acme").SpecBytes, "what is over is not counted")
	require.Nil(t, w.fill(1, large)[0].Refusal)
	barred(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: results[1].Job, Action: work.ActionRetry, Spec: append(large.Spec, large.Spec...)}).Refusal, "524288 more bytes")
	w.quota(queueverbs.PutQuota{MaxSpecMB: limit(bounds.None)})
	require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: results[1].Job, Action: work.ActionRetry}).Refusal)
}

func TestBounds_arraysThatGoOn(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.quota(queueverbs.PutQuota{MaxSubmissions: limit(1)})
	one := w.submit(array(2))
	barred(t, w.fill(1, oneGPU())[0].Refusal, "1 of 1 unfinished submission ")
	w.place(one.At(0), "n1")
	require.Equal(t, 1, w.m.View().Usage("acme").Submissions, "elements are of their array")
	w.report(one.At(0), 0, jobverbs.ReportEnded, exit(1))
	require.Nil(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: one.At(0), Action: work.ActionRetry}).Refusal, "its array is counted already")
	w.do(jobverbs.ControlJob{Job: one, Action: work.ActionCancel})
	w.submit(oneGPU())
	for name, id := range map[string]ident.Job{"an array": one, "an element without a row": one.At(1), "an element": one.At(0)} {
		barred(t, do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: id, Action: work.ActionRetry}).Refusal, "1 of 1 unfinished submission ")
		require.Equal(t, 1, w.m.View().Usage("acme").Submissions, name)
	}
}

func TestBounds_openWithTheirLevel(t *testing.T) {
	_, err := kernel.Encode(level.Released, queueverbs.PutQuota{Tenant: "acme", MaxSubmissions: limit(1)})
	require.ErrorContains(t, err, "needs feature level")
	_, err = kernel.Encode(level.Released, queueverbs.PutQuota{Tenant: "acme", MaxJobs: limit(1)})
	require.NoError(t, err)
	w := newWorld(t)
	w.quota(queueverbs.PutQuota{MaxSubmissions: limit(0), MaxSpecMB: limit(0)})
	w.at = level.Released
	require.Nil(t, w.fill(1, oneGPU())[0].Refusal, "older replicas do not refuse it")
	w.at = level.Newest
	barred(t, w.fill(1, oneGPU())[0].Refusal, "1 of 0 unfinished submissions")
	r := do[queueverbs.QuotaResult](w, queueverbs.PutQuota{Tenant: "acme", MaxSpecMB: limit(-2)})
	require.Equal(t, kernel.CodeInvalidArgument, r.Refusal.Code)
	require.Nil(t, do[queueverbs.QuotaResult](w, queueverbs.DeleteQuota{Tenant: "acme"}).Refusal, "also one that sets bounds alone")
}
