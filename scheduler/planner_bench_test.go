package scheduler_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/worth"
)

const (
	largeNodes   = 10_000
	largeTenants = 200
	largeQueue   = 1_000_000
)

// mixed returns the shapes of the jobs that wait in the large cluster.
func mixed() []work.Shape {
	var shapes []work.Shape
	for _, gpus := range []uint16{1, 2, 4, 8} {
		for _, cpus := range []uint32{0, 2, 6, 8} {
			shapes = append(shapes, work.Shape{GPUs: gpus, CPUs: cpus * uint32(gpus), MemMB: uint32(gpus) << 13})
		}
	}
	for _, milli := range []uint16{250, 300, 500, 700} {
		shapes = append(shapes, work.Shape{FractionMilli: milli, CPUs: 2})
	}
	return shapes
}

func largeCluster(b *testing.B) *state {
	s := newState(b)
	for i := range largeNodes {
		id := fmt.Sprintf("n%05d", i)
		s.node(id, gpus(id, "H100", 8, 8), nil)
	}
	return s
}

// label labels the nodes of a large cluster as leaves of 32.
func label(b *testing.B, s *state) {
	for i := range largeNodes {
		id := fmt.Sprintf("n%05d", i)
		s.node(id, gpus(id, "H100", 8, 8), map[string]string{leaf: fmt.Sprintf("leaf-%03d", i/32)})
	}
}

func (s *state) enqueue(n int, shapes ...work.Shape) {
	for done := 0; done < n; {
		batch := jobverbs.SubmitJobs{}
		for range min(5000, n-done) {
			j := s.job(shapes[done%len(shapes)], 5)
			j.Tenant = fmt.Sprintf("t%03d", done/len(shapes)%largeTenants)
			batch.Jobs = append(batch.Jobs, j)
			done++
		}
		s.apply(batch)
	}
}

// 80,000 GPUs, and a million waiting jobs of mixed shapes of 200 tenants.
func BenchmarkPlanner_80kGPUs_1MQueued(b *testing.B) {
	s := largeCluster(b)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s.enqueue(largeQueue, mixed()...)
	runtime.GC()
	runtime.ReadMemStats(&after)
	var planner scheduler.Planner
	b.Run("fill the cluster", func(b *testing.B) {
		v, placed := s.machine.View(), 0
		for b.Loop() {
			planner = scheduler.Planner{}
			placed += planner.Plan(v, scheduler.Options{Quiet: true}).Placed
		}
		b.ReportMetric(float64(placed)/b.Elapsed().Seconds(), "placements/s")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/largeQueue, "B/queued-job")
	})
	var placed []ident.Job
	for _, c := range planner.Plan(s.machine.View(), scheduler.Options{}).Commands {
		for _, p := range c.Placements {
			placed = append(placed, p.Job)
		}
		s.apply(c)
	}
	for _, c := range planner.Plan(s.machine.View(), scheduler.Options{}).Commands {
		s.apply(c)
	}
	b.Run("nothing changes", func(b *testing.B) {
		v := s.machine.View()
		for b.Loop() {
			require.Zero(b, planner.Plan(v, scheduler.Options{}).Placed)
		}
	})
	b.Run("a job arrives", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			s.enqueue(1, work.Shape{GPUs: 8, CPUs: 16, MemMB: 8 << 13})
			v := s.machine.View()
			b.StartTimer()
			require.Zero(b, planner.Plan(v, scheduler.Options{Quiet: true}).Placed)
		}
	})
	b.Run("a job ends", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			s.end(placed[i])
			v := s.machine.View()
			b.StartTimer()
			plan := planner.Plan(v, scheduler.Options{Quiet: true})
			b.StopTimer()
			for _, c := range plan.Commands {
				s.apply(c)
			}
			b.StartTimer()
		}
	})
}

// 80,000 GPUs that are filled with jobs of one shape.
func BenchmarkPlanner_80kGPUs_oneShape(b *testing.B) {
	for _, c := range []struct {
		name  string
		shape work.Shape
		jobs  int
	}{
		{"one GPU", work.Shape{GPUs: 1}, 8 * largeNodes},
		{"8 nodes", work.Shape{Nodes: 8, GPUs: 8}, largeNodes / 8},
		{"8 nodes of a leaf", same(8, 0), largeNodes / 32 * 4},
		{"64 nodes in segments of 8", same(64, 8), largeNodes / 64},
		{"8 nodes in few leaves", work.Shape{Nodes: 8, GPUs: 8, Between: domains.Prefer, Level: leaf}, largeNodes / 8},
		{"8 nodes in many leaves", work.Shape{Nodes: 8, GPUs: 8, Between: domains.Spread, Level: leaf}, largeNodes / 8},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := largeCluster(b)
			if c.shape.Level != "" {
				label(b, s)
			}
			s.enqueue(c.jobs, c.shape)
			v := s.machine.View()
			prices := worth.Learn(v.Mix(), v.Nodes())
			opts := scheduler.Options{Prices: func() *worth.Prices { return prices }}
			placed := 0
			for b.Loop() {
				placed += scheduler.Plan(v, opts).Placed
			}
			require.Equal(b, c.jobs*b.N, placed)
			b.ReportMetric(float64(placed)/b.Elapsed().Seconds(), "placements/s")
		})
	}
}
