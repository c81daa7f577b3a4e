package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/typed"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/reserve"
)

// rules are the policies of a benchmark: each may be on or off.
type rules struct{ quotas, guarantees, windows, backfill, domains bool }

// governed returns the large cluster under some policies.
func governed(b *testing.B, on rules) *state {
	s := largeCluster(b)
	if on.domains {
		label(b, s)
	}
	if on.quotas {
		hours := int32(10_000_000)
		for i := range largeTenants {
			s.apply(queueverbs.PutQuota{Tenant: fmt.Sprintf("t%03d", i), MaxByType: typed.Limits{{Type: "H100", GPUs: 70_000}}, MaxGPUHours: &hours})
		}
	}
	if on.guarantees {
		s.apply(queueverbs.PutQueue{Queue: work.Queue{Name: "default", Guaranteed: 1000, MaxByType: typed.Limits{{Type: "H100", GPUs: 80_000}}}})
	}
	if on.windows {
		now := s.machine.View().Now()
		hours := func(n int) int64 { return now + int64(n)*int64(time.Hour) }
		put := func(w windowverbs.PutWindow) {
			require.Nil(b, s.apply(w)[0].(windowverbs.WindowResult).Refusal)
		}
		for i := range 20 {
			put(windowverbs.PutWindow{Name: fmt.Sprintf("m%02d", i), Kind: windows.Maintenance, Patterns: []string{fmt.Sprintf("n09%02d?", i)}, From: hours(1 + i), Until: hours(2 + i)})
		}
		for i := range 20 {
			put(windowverbs.PutWindow{Name: fmt.Sprintf("r%02d", i), Kind: windows.Reservation, Tenant: fmt.Sprintf("t%03d", i), GPUs: 64, From: hours(1 + i), Until: hours(9 + i)})
		}
	}
	if on.backfill {
		p := policy.DefaultPolicy()
		p.Backfill = policy.Backfill{Reservations: 20}
		require.Nil(b, s.apply(queueverbs.PutPolicy{Policy: p})[0].(queueverbs.PolicyResult).Refusal)
	}
	return s
}

// enqueueTerms submits jobs of all tenants in turn, with time limits if the policies look at them.
func (s *state) enqueueTerms(n int, on rules, shapes ...work.Shape) {
	for done := 0; done < n; {
		batch := jobverbs.SubmitJobs{}
		for range min(5000, n-done) {
			j := s.job(shapes[done%len(shapes)], 5)
			j.Tenant = fmt.Sprintf("t%03d", done/len(shapes)%largeTenants)
			if on.windows || on.backfill {
				j.MaxRuntime = int64([]time.Duration{0, 30 * time.Minute, 20 * time.Hour}[done/7%3])
			}
			batch.Jobs = append(batch.Jobs, j)
			done++
		}
		s.apply(batch)
	}
}

// BenchmarkPlanner_policies measures the large cluster with each policy by itself and with all of them: the rate of
// placements into an empty cluster, a pass of a full one in which nothing has changed, and a pass after a job has ended.
func BenchmarkPlanner_policies(b *testing.B) {
	all := rules{quotas: true, guarantees: true, windows: true, backfill: true, domains: true}
	for _, c := range []struct {
		name   string
		on     rules
		shapes []work.Shape
		jobs   int
	}{
		{"one GPU, plain", rules{}, []work.Shape{{GPUs: 1}}, 200_000},
		{"one GPU, quotas", rules{quotas: true}, []work.Shape{{GPUs: 1}}, 200_000},
		{"one GPU, all", all, []work.Shape{{GPUs: 1}}, 200_000},
		{"mixed, plain", rules{}, mixed(), 200_000},
		{"mixed, windows", rules{windows: true}, mixed(), 200_000},
		{"mixed, quotas", rules{quotas: true}, mixed(), 200_000},
		{"mixed, quotas and windows", rules{quotas: true, windows: true}, mixed(), 200_000},
		{"mixed, all", all, mixed(), 200_000},
		{"mixed, all, 1M", all, mixed(), largeQueue},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkPolicies(b, c.on, c.shapes, c.jobs) })
	}
}

func benchmarkPolicies(b *testing.B, on rules, shapes []work.Shape, jobs int) {
	s := governed(b, on)
	s.enqueueTerms(jobs, on, shapes...)
	var planner scheduler.Planner
	opts := scheduler.Options{Backfill: on.backfill}
	b.Run("fill the cluster", func(b *testing.B) {
		v, placed := s.machine.View(), 0
		for b.Loop() {
			planner = scheduler.Planner{}
			placed += planner.Plan(v, scheduler.Options{Quiet: true, Backfill: on.backfill}).Placed
		}
		b.ReportMetric(float64(placed)/b.Elapsed().Seconds(), "placements/s")
	})
	var placed []ident.Job
	for range 3 {
		plan := planner.Plan(s.machine.View(), opts)
		for _, c := range plan.Commands {
			for _, p := range c.Placements {
				placed = append(placed, p.Job)
			}
			require.Empty(b, s.apply(c)[0].(jobverbs.PlaceResult).Refused)
		}
		if on.backfill {
			if starts, changed := reserve.Starts(s.machine.View(), plan.Blocked.Keys(), s.now.UnixNano(), opts.Model); changed {
				s.apply(starts)
			}
		}
	}
	classes := 0
	for range s.machine.View().Classes() {
		classes++
	}
	b.Run("nothing changes", func(b *testing.B) {
		v := s.machine.View()
		for b.Loop() {
			require.Zero(b, planner.Plan(v, opts).Placed)
		}
		b.ReportMetric(float64(classes), "classes")
	})
	b.Run("a job ends", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			s.end(placed[i])
			v := s.machine.View()
			b.StartTimer()
			plan := planner.Plan(v, opts)
			b.StopTimer()
			for _, c := range plan.Commands {
				s.apply(c)
			}
			b.StartTimer()
		}
	})
}
