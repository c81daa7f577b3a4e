package scheduler_test

import (
	"testing"

	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/worth"
)

// A planner that keeps its pool makes the plan of a new one, whatever happened since its last pass: jobs were
// submitted, placed, refused and ended, and nodes registered, became unreachable and came back with unhealthy GPUs.
func TestPlanner_plansAsIfItWereNew(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newState(t)
		drawNodes(r, s)
		drawLimits(r, s)
		var planner scheduler.Planner
		var prices *worth.Prices
		opts := scheduler.Options{PerCommand: 4, Prices: func() *worth.Prices { return prices }}
		for range rapid.IntRange(2, 8).Draw(r, "rounds") {
			switch rapid.SampledFrom([]string{"jobs", "jobs", "jobs", "ends", "losses", "node", "learn"}).Draw(r, "step") {
			case "jobs":
				drawJobs(r, s)
			case "ends":
				drawEnds(r, s)
			case "losses":
				drawLosses(r, s)
			case "node":
				for n := range s.machine.View().Nodes() {
					g := append([]work.GPU(nil), n.GPUs...)
					if len(g) > 0 && rapid.Bool().Draw(r, "sick") {
						g[0].Health = v1.GpuHealth_QUARANTINED
					}
					s.node(n.ID, g, n.Labels)
					break
				}
			case "learn":
				prices = worth.Learn(s.machine.View().Mix(), s.machine.View().Nodes())
			}
			v := s.machine.View()
			want := scheduler.Plan(v, opts)
			requireSame(r, want, planner.Plan(v, opts))
			if rapid.Bool().Draw(r, "applied") {
				for _, c := range want.Commands {
					s.apply(c)
				}
			}
		}
	})
}
