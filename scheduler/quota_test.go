package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/scheduler"
)

func (s *state) quota(tenant string, gpus, running int32) {
	s.t.Helper()
	c := queueverbs.PutQuota{Tenant: tenant, MaxGPUs: &gpus}
	if running >= 0 {
		c.MaxRunning = &running
	}
	require.Nil(s.t, s.apply(c)[0].(queueverbs.QuotaResult).Refusal)
}

// A plan gives a tenant the GPUs that its quota allows, in the order of the queue, and shows only this tenant why the
// other jobs wait.
func TestPlan_keepsToQuotas(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	a, b, c := s.submit(work.Shape{GPUs: 2}, 5), s.submit(work.Shape{GPUs: 2}, 5), s.submit(work.Shape{GPUs: 1}, 4)
	other := s.job(work.Shape{GPUs: 2}, 1)
	other.Tenant = "other"
	theirs := s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{other}})[0].(jobverbs.SubmitJobsResult).Results[0].Job
	s.quota("t", 3, -1)
	require.Equal(t, 3, s.run().Placed)
	require.NotEmpty(t, s.placed(a))
	require.Empty(t, s.placed(b))
	require.NotEmpty(t, s.placed(c), "what still fits the quota goes on")
	require.NotEmpty(t, s.placed(theirs))
	require.True(t, s.run().ReasonsOnly || s.reason(b) != "")
	require.Equal(t, "tenant quota: 3 of 3 GPUs in use", s.reason(b))
	require.Empty(t, s.run().Commands, "nothing changes, so nothing is proposed")

	s.quota("t", 8, 2)
	require.Zero(t, s.run().Placed)
	require.Equal(t, "tenant quota: 2 of 2 jobs running", s.reason(b))
	s.end(a)
	require.Equal(t, 1, s.run().Placed)
	require.NotEmpty(t, s.placed(b))
}

func TestPlan_keepsToTheLimitsOfQueues(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	s.apply(queueverbs.PutQueue{Queue: work.Queue{Name: "default", MaxGPUs: 3}})
	jobs := []ident.Job{s.submit(work.Shape{GPUs: 1}, 5), s.submit(work.Shape{GPUs: 1}, 5), s.submit(work.Shape{GPUs: 1}, 5), s.submit(work.Shape{GPUs: 1}, 5)}
	require.Equal(t, 3, s.run().Placed)
	s.run()
	require.Contains(t, s.reason(jobs[3]), `the jobs of queue "default" may have 3 GPUs together`)
	s.apply(queueverbs.PutQueue{Queue: work.Queue{Name: "default"}})
	require.Equal(t, 1, s.run().Placed)
}

// benchQuota measures a pass while 10,000 jobs of a tenant wait, on a free cluster where a quota of 0 GPUs bars them,
// or on a full one without a quota.
func benchQuota(b *testing.B, quota bool) {
	s := loaded(b, 10_000)
	if quota {
		s.quota("t", 0, -1)
		for _, c := range scheduler.Plan(s.machine.View(), scheduler.Options{}).Commands {
			s.apply(c)
		}
	} else {
		s.submit(work.Shape{GPUs: 1, GPUType: "H100"}, 5)
		for range 10 {
			for _, c := range scheduler.Plan(s.machine.View(), scheduler.Options{}).Commands {
				s.apply(c)
			}
		}
	}
	v := s.machine.View()
	b.ReportAllocs()
	for b.Loop() {
		if plan := scheduler.Plan(v, scheduler.Options{}); len(plan.Commands) > 0 {
			b.Fatalf("%d commands", len(plan.Commands))
		}
	}
}

func BenchmarkPlan_10kAtQuota(b *testing.B)  { benchQuota(b, true) }
func BenchmarkPlan_clusterFull(b *testing.B) { benchQuota(b, false) }
