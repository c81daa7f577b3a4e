package simulate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/simulate/trace"
)

// of returns a job of a tenant in a queue.
func of(tenant, queue string, gpus int, submit, takes time.Duration) trace.Job {
	j := asked(tenant, gpus, submit, takes)
	j.Tenant, j.Queue, j.Priority, j.Preemptible = tenant, queue, 5, true
	return j
}

func shared(t require.TestingT, count, gpus int) Cluster {
	return Cluster{Nodes: nodes(t, count, gpus), FairShare: true, Queues: []*work.Queue{{Name: "default", Weight: 1}}}
}

func runOn(t require.TestingT, on Cluster, jobs []trace.Job, policy policy.Policy) *run {
	r := newRun(on, jobs, policy)
	require.NoError(t, r.all(context.Background(), func(int) {}))
	return r
}

// firstStarts counts by tenant the jobs that started within n hours from a time.
func firstStarts(r *run, from time.Duration, n int) map[string]int {
	of := map[string]int{}
	for _, j := range r.jobs {
		if at := time.Duration(j.row.StartedAt - r.origin); at >= from && at < from+time.Duration(n)*time.Hour {
			of[j.row.Tenant]++
		}
	}
	return of
}

func TestShares_weightsOfQueuesDecide(t *testing.T) {
	on := shared(t, 1, 8)
	on.Queues = []*work.Queue{{Name: "default", Weight: 1}, {Name: "lab", Weight: 3}, {Name: "vision", Parent: "lab", Weight: 1}, {Name: "web", Weight: 1}}
	var jobs []trace.Job
	for range 200 {
		jobs = append(jobs, of("many", "web", 8, 0, time.Hour))
	}
	for range 100 {
		jobs = append(jobs, of("few", "vision", 8, time.Minute, time.Hour))
	}
	require.Equal(t, map[string]int{"few": 60, "many": 20}, firstStarts(runOn(t, on, jobs, named(t, "fifo")), time.Hour, 80),
		"three to one, by the weight of the queue above")
}

func TestShares_whatWasUsedCountsAndDecays(t *testing.T) {
	var jobs []trace.Job
	for range 48 {
		jobs = append(jobs, of("early", "default", 8, 0, time.Hour))
	}
	for range 24 {
		jobs = append(jobs, of("early", "default", 8, 48*time.Hour, time.Hour), of("late", "default", 8, 48*time.Hour, time.Hour))
	}
	remembers, forgets := named(t, "fifo"), named(t, "fifo")
	remembers.HalfLife, forgets.HalfLife = int64(365*24*time.Hour), int64(time.Minute)
	require.Equal(t, map[string]int{"late": 10}, firstStarts(runOn(t, shared(t, 1, 8), jobs, remembers), 48*time.Hour, 10))
	require.Equal(t, map[string]int{"late": 5, "early": 5}, firstStarts(runOn(t, shared(t, 1, 8), jobs, forgets), 48*time.Hour, 10))
}

// TestMeasures_tellAnUnfairPolicy simulates a tenant that holds the cluster for days, and another one that submits
// short jobs. The measures must show that these wait for days without preemption, and not with it.
func TestMeasures_tellAnUnfairPolicy(t *testing.T) {
	var jobs []trace.Job
	for range 8 {
		jobs = append(jobs, of("hog", "default", 1, 0, 200*time.Hour))
	}
	for i := range 20 {
		jobs = append(jobs, of("guest", "default", 1, 10*time.Hour+time.Duration(i)*time.Minute, 10*time.Minute))
	}
	measured := map[string]Measures{}
	for _, name := range []string{"fifo", "attained"} {
		measured[name] = runOn(t, shared(t, 1, 8), jobs, named(t, name)).measures()
	}
	unfair, fair := measured["fifo"], measured["attained"]
	require.Equal(t, "guest", unfair.WorstTenant)
	require.Greater(t, unfair.WorstTenantSlowdown, 1000.0, "190 hours for 10 minutes")
	require.InDelta(t, 0.5, unfair.JainTenants, 0.01, "one of two tenants bears all of it")
	require.Less(t, fair.WorstTenantSlowdown, 10.0)
	require.Greater(t, fair.JainTenants, 0.6)
	require.Equal(t, "guest/guest", unfair.WorstUser, "users of two tenants may have one name")
}

func TestMeasures_jobsThatEndAtOnceDoNotDecideAlone(t *testing.T) {
	jobs := []trace.Job{
		of("a", "default", 8, 0, time.Minute), of("b", "default", 8, 0, time.Millisecond), of("b", "default", 8, 0, time.Hour),
	}
	m := runOn(t, shared(t, 1, 8), jobs, named(t, "fifo")).measures()
	require.Less(t, m.WorstTenantSlowdown, 10.0)
}

func TestFairness_isJainsIndex(t *testing.T) {
	of := map[string]*mean{}
	for who, slowdowns := range map[string][]float64{"a": {1, 3}, "b": {4}, "c": {6}} {
		for _, s := range slowdowns {
			count(of, who, s)
		}
	}
	jain, worst, most := fairness(of)
	require.InDelta(t, 12.0*12/(3*(4+16+36)), jain, 1e-12)
	require.Equal(t, "c", worst)
	require.Equal(t, 6.0, most)
}

func TestShares_limitsHold(t *testing.T) {
	two, one := int32(2), int32(1)
	hours := int32(3)
	on := shared(t, 1, 16)
	on.Queues = append(on.Queues, &work.Queue{Name: "small", Weight: 1, MaxGPUs: 3})
	on.Quotas = []*work.Quota{{Tenant: "gpus", MaxGPUs: &two}, {Tenant: "jobs", MaxRunning: &one}, {Tenant: "hours", MaxGPUHours: &hours}}
	on.Begin = time.Date(2026, 1, 30, 0, 0, 0, 0, time.UTC)
	var jobs []trace.Job
	for range 4 {
		jobs = append(jobs, of("gpus", "default", 1, 0, time.Hour), of("jobs", "default", 1, 0, time.Hour),
			of("queue", "small", 1, 0, time.Hour), of("hours", "default", 1, 0, 2*time.Hour))
	}
	r := runOn(t, on, jobs, named(t, "fifo"))
	require.Zero(t, r.measures().Dropped)
	ends := map[string]time.Duration{}
	for _, j := range r.jobs {
		ends[j.row.Tenant] = max(ends[j.row.Tenant], time.Duration(j.ended-r.origin))
	}
	require.Equal(t, 2*time.Hour, ends["gpus"])
	require.Equal(t, 4*time.Hour, ends["jobs"])
	require.Equal(t, 2*time.Hour, ends["queue"], "3 at a time")
	require.Equal(t, 2*time.Hour, ends["hours"], "the hours of a month are held against what was used when a job starts")

	for range 4 {
		jobs = append(jobs, of("hours", "default", 1, 5*time.Hour, time.Hour))
	}
	r = runOn(t, on, jobs, named(t, "fifo"))
	require.Zero(t, r.measures().Dropped)
	require.Equal(t, time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC).UnixNano(), r.jobs[len(jobs)-1].row.StartedAt, "the next month gives again")
}

func TestShares_whatNoLimitLetsRunIsDropped(t *testing.T) {
	none := int32(0)
	on := shared(t, 1, 8)
	on.Quotas = []*work.Quota{{Tenant: "barred", MaxGPUs: &none}}
	after := of("free", "default", 1, time.Minute, time.Hour)
	after.ID, after.After = "after", []string{"barred"}
	r := runOn(t, on, []trace.Job{of("barred", "default", 1, 0, time.Hour), of("free", "default", 1, 0, time.Hour), after}, named(t, "attained"))
	m := r.measures()
	require.Equal(t, 2, m.Dropped, "and who waits for it")
	require.Zero(t, m.WaitMeanSeconds)
}

func TestRun_jobsWaitForOthers(t *testing.T) {
	first, second := of("a", "default", 1, 0, time.Hour), of("a", "default", 1, time.Minute, time.Hour)
	first.ID, second.ID, second.After = "first", "second", []string{"first", "unknown"}
	r := runOn(t, shared(t, 1, 8), []trace.Job{first, second}, named(t, "fifo"))
	require.Equal(t, r.jobs[0].ended, r.jobs[1].row.StartedAt)
	require.Zero(t, r.measures().WaitMeanSeconds, "being held back is not waiting")
}

func TestRun_arraysRunSoManyAtATime(t *testing.T) {
	var jobs []trace.Job
	for i := range 6 {
		j := of("a", "default", 1, 0, time.Hour)
		j.ID, j.Array, j.MaxParallel = fmt.Sprint("a", i), "a", 2
		jobs = append(jobs, j)
	}
	r := runOn(t, shared(t, 1, 8), jobs, named(t, "attained"))
	require.Equal(t, r.origin+int64(3*time.Hour), r.cluster.now)
}

// TestShares_properties checks that at the end no one holds anything, that the accounts have all that was held, and
// that runs with the same inputs are equal.
func TestShares_properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		on := shared(t, 2, 8)
		on.Queues = append(on.Queues, &work.Queue{Name: "a", Weight: 3, MaxGPUs: 12, Guaranteed: uint32(rapid.SampledFrom([]int{0, 8}).Draw(t, "guaranteed"))}, &work.Queue{Name: "b", Parent: "a", Weight: 2})
		four := int32(4)
		on.Quotas = []*work.Quota{{Tenant: "t1", MaxRunning: &four}}
		var jobs []trace.Job
		at := time.Duration(0)
		for i := range rapid.IntRange(1, 50).Draw(t, "jobs") {
			at += time.Duration(rapid.IntRange(0, 30).Draw(t, "pause")) * time.Minute
			j := of(rapid.SampledFrom([]string{"t1", "t2"}).Draw(t, "tenant"), rapid.SampledFrom([]string{"default", "a", "b"}).Draw(t, "queue"),
				1<<rapid.IntRange(0, 3).Draw(t, "gpus"), at, time.Duration(rapid.IntRange(1, 1000).Draw(t, "takes"))*time.Minute)
			j.ID, j.User = fmt.Sprint(i), rapid.SampledFrom([]string{"u1", "u2"}).Draw(t, "user")
			j.Preemptible, j.Priority = rapid.Bool().Draw(t, "preemptible"), uint8(rapid.IntRange(0, 10).Draw(t, "priority"))
			j.Limit = 2 * j.Takes
			jobs = append(jobs, j)
		}
		if rapid.Bool().Draw(t, "a reservation") {
			from := origin + int64(rapid.IntRange(0, 600).Draw(t, "begins"))*int64(time.Minute)
			on.Windows = []*windows.Window{{Name: "r", Kind: windows.Reservation, Tenant: "t1", Nodes: []string{"n001"}, From: from, Until: from + int64(5*time.Hour)}}
		}
		policy := named(t, rapid.SampledFrom(Policies()).Draw(t, "policy"))
		policy.HalfLife = int64(10 * 365 * 24 * time.Hour)
		policy.Preemption.ProtectFromPriority = int64(rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "protected"))
		r := runOn(t, on, jobs, policy)
		charged := 0.0
		for _, a := range r.cluster.accounts {
			require.True(t, a.Idle())
			b := *a
			b.Settle(r.cluster.now, accounts.Life(policy.HalfLife))
			charged += float64(b.Used.GPUMilli) * 1e6
		}
		require.InEpsilon(t, r.seen.held, charged, 0.01, "what was held is in the accounts")
		for _, j := range r.jobs {
			require.Equal(t, v1.JobState_SUCCEEDED, j.row.State)
			if !j.row.Preemptible {
				require.Empty(t, j.row.Past)
			}
		}
		require.Zero(t, r.cluster.QueueTreeGPUs("a"))
		require.Zero(t, r.cluster.HeldOfType("t1", "GPU"))
		require.Equal(t, r.measures(), runOn(t, on, jobs, policy).measures())
	})
}
