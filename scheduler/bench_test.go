package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/scheduler"
)

// loaded is 1,250 nodes of 8 GPUs with so many one-GPU jobs waiting.
func loaded(b *testing.B, jobs int) *state {
	s := newState(b)
	for i := range 1250 {
		id := fmt.Sprintf("n%04d", i)
		s.node(id, gpus(id, "H100", 8, 8), map[string]string{"rack": fmt.Sprint(i / 10)})
	}
	for range jobs / 1000 {
		batch := fsm.SubmitJobs{}
		for range 1000 {
			batch.Jobs = append(batch.Jobs, s.job(fsm.Shape{GPUs: 1, GPUType: "H100"}, 5))
		}
		s.apply(batch)
	}
	return s
}

func BenchmarkPlan_100kQueued_1250x8(b *testing.B) {
	s := loaded(b, 100_000)
	v := s.machine.View()
	b.ReportAllocs()
	placed := 0
	for b.Loop() {
		placed += scheduler.Plan(v, s.now, scheduler.Options{}).Placed
	}
	b.ReportMetric(float64(placed)/b.Elapsed().Seconds(), "placements/s")
	require.Equal(b, 10_000*b.N, placed)
}

func BenchmarkPlan_NoChange(b *testing.B) {
	s := loaded(b, 100_000)
	for _, c := range scheduler.Plan(s.machine.View(), s.now, scheduler.Options{}).Commands {
		s.apply(c)
	}
	v := s.machine.View()
	b.ReportAllocs()
	for b.Loop() {
		if plan := scheduler.Plan(v, s.now, scheduler.Options{}); len(plan.Commands) > 0 {
			b.Fatalf("%d commands", len(plan.Commands))
		}
	}
}

// Many kinds of jobs that all fit nowhere, some of them by label.
func BenchmarkPlan_NoChange_1000Classes(b *testing.B) {
	s := loaded(b, 100_000)
	for i := range 1000 {
		shape := fsm.Shape{GPUs: 1, MemMB: uint32(1 + i)}
		if i%4 == 0 {
			shape.Selector = fmt.Sprintf("rack=%d", i%125)
		}
		s.submit(shape, 5)
	}
	for _, c := range scheduler.Plan(s.machine.View(), s.now, scheduler.Options{}).Commands {
		s.apply(c)
	}
	v := s.machine.View()
	for b.Loop() {
		if plan := scheduler.Plan(v, s.now, scheduler.Options{}); len(plan.Commands) > 0 {
			b.Fatalf("%d commands", len(plan.Commands))
		}
	}
}
