package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/bounds"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/foresee"
)

// loaded returns a cluster of 1,250 nodes of 8 GPUs, in which one-GPU jobs wait.
func loaded(b *testing.B, jobs int) *state {
	s := newState(b)
	for i := range 1250 {
		id := fmt.Sprintf("n%04d", i)
		s.node(id, gpus(id, "H100", 8, 8), map[string]string{"rack": fmt.Sprint(i / 10)})
	}
	s.unbounded()
	for range jobs / 1000 {
		batch := jobverbs.SubmitJobs{}
		for range 1000 {
			batch.Jobs = append(batch.Jobs, s.job(work.Shape{GPUs: 1, GPUType: "H100"}, 5))
		}
		s.apply(batch)
	}
	return s
}

// unbounded takes the bounds of the tenant of s.job away.
func (s *state) unbounded() {
	none := int32(bounds.None)
	s.apply(queueverbs.PutQuota{Tenant: s.job(work.Shape{}, 0).Tenant, MaxSubmissions: &none, MaxSpecMB: &none})
}

func BenchmarkPlan_100kQueued_1250x8(b *testing.B) {
	s := loaded(b, 100_000)
	v := s.machine.View()
	b.ReportAllocs()
	placed := 0
	for b.Loop() {
		placed += scheduler.Plan(v, scheduler.Options{}).Placed
	}
	b.ReportMetric(float64(placed)/b.Elapsed().Seconds(), "placements/s")
	require.Equal(b, 10_000*b.N, placed)
}

func BenchmarkPlan_NoChange(b *testing.B) {
	s := loaded(b, 100_000)
	for _, c := range scheduler.Plan(s.machine.View(), scheduler.Options{}).Commands {
		s.apply(c)
	}
	v := s.machine.View()
	b.ReportAllocs()
	for b.Loop() {
		if plan := scheduler.Plan(v, scheduler.Options{}); len(plan.Commands) > 0 {
			b.Fatalf("%d commands", len(plan.Commands))
		}
	}
}

// Many classes of jobs that fit nowhere, some of them because of a label.
func BenchmarkPlan_NoChange_1000Classes(b *testing.B) {
	s := loaded(b, 100_000)
	for i := range 1000 {
		shape := work.Shape{GPUs: 1, MemMB: uint32(1 + i)}
		if i%4 == 0 {
			shape.Selector = fmt.Sprintf("rack=%d", i%125)
		}
		s.submit(shape, 5)
	}
	for _, c := range scheduler.Plan(s.machine.View(), scheduler.Options{}).Commands {
		s.apply(c)
	}
	v := s.machine.View()
	for b.Loop() {
		if plan := scheduler.Plan(v, scheduler.Options{}); len(plan.Commands) > 0 {
			b.Fatalf("%d commands", len(plan.Commands))
		}
	}
}

// The forecast for a tenant whose jobs fill the cluster, while 100,000 more of them wait.
func BenchmarkForesee_100kQueued_1250x8(b *testing.B) {
	s := loaded(b, 110_000)
	for _, c := range scheduler.Plan(s.machine.View(), scheduler.Options{}).Commands {
		s.apply(c)
	}
	b.Run("durations unknown", func(b *testing.B) { benchmarkForesee(b, s, "t") })
	b.Run("of another tenant", func(b *testing.B) { benchmarkForesee(b, s, "u") })
	// Some jobs end in every minute of the next three days.
	done := newState(b)
	for i := range 1250 {
		id := fmt.Sprintf("n%04d", i)
		done.node(id, gpus(id, "H100", 8, 8), map[string]string{"rack": fmt.Sprint(i / 10)})
	}
	done.unbounded()
	for i := range 110 {
		batch := jobverbs.SubmitJobs{}
		for k := range 1000 {
			j := done.job(work.Shape{GPUs: 1, GPUType: "H100"}, 5)
			j.MaxRuntime = int64(time.Minute) * int64(1+(i*1000+k*7919)%5000)
			batch.Jobs = append(batch.Jobs, j)
		}
		done.apply(batch)
	}
	for _, c := range scheduler.Plan(done.machine.View(), scheduler.Options{}).Commands {
		done.apply(c)
	}
	b.Run("limits known", func(b *testing.B) { benchmarkForesee(b, done, "t") })
}

func benchmarkForesee(b *testing.B, s *state, tenant string) {
	v, passes := s.machine.View(), 0
	for b.Loop() {
		passes += foresee.Starts(v, tenant, s.now, foresee.Options{}).Passes
	}
	b.ReportMetric(float64(passes)/float64(b.N), "plans")
}

// crowd is like loaded, with jobs of ten users of each of 200 tenants, in four queues.
func crowd(b *testing.B, jobs int) *state {
	s := loaded(b, 0)
	for i := range 4 {
		s.queue(fmt.Sprint("q", i), "", uint32(i+1))
	}
	for i := range jobs / 1000 {
		batch := jobverbs.SubmitJobs{}
		for k := range 1000 {
			n := i*1000 + k
			batch.Jobs = append(batch.Jobs, s.of(fmt.Sprint("q", n%4), fmt.Sprint("t", n%200), fmt.Sprint("u", n/200%10), work.Shape{GPUs: 1, GPUType: "H100"}))
		}
		s.apply(batch)
	}
	return s
}

func BenchmarkPlan_100kQueuedOf2000Users_1250x8(b *testing.B) {
	s := crowd(b, 100_000)
	v := s.machine.View()
	b.ReportAllocs()
	placed := 0
	for b.Loop() {
		placed += scheduler.Plan(v, scheduler.Options{}).Placed
	}
	b.ReportMetric(float64(placed)/b.Elapsed().Seconds(), "placements/s")
}

// One job has ended: each user has an account, and all users wait for the one GPU.
func BenchmarkPlan_afterOneEndOf2000Users(b *testing.B) {
	s := crowd(b, 100_000)
	for _, c := range scheduler.Plan(s.machine.View(), scheduler.Options{}).Commands {
		s.apply(c)
	}
	for j := range s.machine.View().ActiveJobs() {
		s.end(j.ID)
		break
	}
	v := s.machine.View()
	b.ReportAllocs()
	for b.Loop() {
		if placed := scheduler.Plan(v, scheduler.Options{}).Placed; placed != 1 {
			b.Fatalf("%d placed", placed)
		}
	}
}
