package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/foresee"
)

func drawAsked(r *rapid.T, tenant string) asked {
	return asked{
		tenant: tenant, name: fmt.Sprintf("j-%d", rapid.IntRange(0, 1).Draw(r, "name")) + rapid.SampledFrom([]string{"", "x"}).Draw(r, "kind"),
		queue: rapid.SampledFrom([]string{"default", "narrow"}).Draw(r, "queue"), gpus: rapid.IntRange(1, 4).Draw(r, "gpus"),
		nodes: rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(r, "nodes"), priority: uint8(rapid.IntRange(4, 6).Draw(r, "priority")),
		limit: time.Duration(rapid.SampledFrom([]int{0, 10, 25, 90}).Draw(r, "minutes")) * time.Minute,
	}
}

// pair has one tenant in a cluster of its own and in a shared one. The tenant does the same at the same times in both,
// and its jobs get the same places, because it may see these.
type pair struct {
	r             *rapid.T
	alone, shared *state
	jobs          [][2]ident.Job
	others        []ident.Job
}

func newPair(t testing.TB, r *rapid.T) *pair {
	p := &pair{r: r, alone: newState(t), shared: newState(t)}
	p.both(func(s *state, _ int) {
		s.step = 0
		for _, id := range []string{"own0", "own1", "theirs0", "theirs1"} {
			s.node(id, gpus(id, "H100", 4, 4), nil)
		}
		s.apply(queueverbs.PutQueue{Queue: work.Queue{Name: "narrow", MaxGPUs: 5}})
	})
	return p
}

// both calls a function for both worlds at the same time.
func (p *pair) both(do func(s *state, world int)) {
	now := p.alone.now
	if p.shared.now.After(now) {
		now = p.shared.now
	}
	for i, s := range []*state{p.alone, p.shared} {
		s.now = now
		do(s, i)
	}
}

// placements returns the placements of a plan that use only nodes with a prefix, of the jobs that a function selects.
func placements(s *state, of func(*work.Job) bool, prefix string) []work.Placement {
	var out []work.Placement
	for _, c := range scheduler.Plan(s.machine.View(), scheduler.Options{}).Commands {
		for _, p := range c.Placements {
			j, _ := s.machine.View().Job(p.Job)
			if of(j) && !slices.ContainsFunc(p.Tasks, func(t work.TaskPlacement) bool { return t.Node[:3] != prefix }) {
				out = append(out, p)
			}
		}
	}
	return out
}

func (p *pair) step() {
	switch rapid.SampledFrom([]string{"submit", "submit", "place", "place", "end", "wait", "their submit", "their submit", "their place", "their end", "their quota"}).Draw(p.r, "step") {
	case "submit":
		a := drawAsked(p.r, "first")
		var ids [2]ident.Job
		p.both(func(s *state, world int) { ids[world] = s.ask(a) })
		p.jobs = append(p.jobs, ids)
	case "place":
		p.place()
	case "end":
		p.end()
	case "wait":
		d := time.Duration(rapid.IntRange(1, 3000).Draw(p.r, "seconds")) * time.Second
		p.both(func(s *state, _ int) { s.now = s.now.Add(d) })
	case "their submit":
		p.others = append(p.others, p.shared.ask(drawAsked(p.r, "second")))
	case "their place":
		for _, place := range placements(p.shared, func(j *work.Job) bool { return j.Tenant == "second" }, "the") {
			p.shared.apply(jobverbs.PlaceJobs{Placements: []work.Placement{place}})
			if p.shared.get(place.Job).Live() {
				p.shared.begin(place.Job)
			}
		}
	case "their end":
		for _, id := range p.others {
			if p.shared.get(id).State == v1.JobState_RUNNING {
				p.shared.over(id, 0)
				return
			}
		}
	case "their quota":
		most := int32(rapid.IntRange(0, 5).Draw(p.r, "most"))
		p.shared.apply(queueverbs.PutQuota{Tenant: "second", MaxGPUs: &most})
	}
}

// place starts the first tenant's jobs that fit on nodes which the second does not use, unless the shared world refuses
// them.
func (p *pair) place() {
	for _, place := range placements(p.alone, func(*work.Job) bool { return true }, "own") {
		i := slices.IndexFunc(p.jobs, func(ids [2]ident.Job) bool { return ids[0] == place.Job })
		theirs := place
		theirs.Job = p.jobs[i][1]
		p.both(func(*state, int) {})
		now := p.shared.now
		p.shared.apply(jobverbs.PlaceJobs{Placements: []work.Placement{theirs}})
		if !p.shared.get(theirs.Job).Live() {
			continue
		}
		p.alone.now = now
		p.alone.apply(jobverbs.PlaceJobs{Placements: []work.Placement{place}})
		p.both(func(s *state, world int) { s.begin(p.jobs[i][world]) })
	}
}

func (p *pair) end() {
	for _, ids := range p.jobs {
		if p.alone.get(ids[0]).State == v1.JobState_RUNNING {
			code := int32(rapid.IntRange(0, 1).Draw(p.r, "code"))
			p.both(func(s *state, world int) { s.over(ids[world], code) })
			return
		}
	}
}

// told returns the whole forecast for the first tenant, with its jobs numbered.
func (p *pair) told(world int) []string {
	s := []*state{p.alone, p.shared}[world]
	f := foresee.Starts(s.machine.View(), "first", p.alone.now, foresee.Options{Jobs: 6, Passes: 5})
	out := []string{fmt.Sprint(f.Passes, " plans")}
	for i, ids := range p.jobs {
		start, ok := f.Start(ids[world])
		after := slices.IndexFunc(p.jobs, func(ids [2]ident.Job) bool { return ids[world] == start.After })
		out = append(out, fmt.Sprint(i, ok, start.At, " after ", after))
	}
	return out
}

// The forecast for a tenant does not depend on the jobs, the history and the quota of another one.
func TestForesee_nothingOfAnotherTenantShows(t *testing.T) {
	foreseen := 0
	rapid.Check(t, func(r *rapid.T) {
		p := newPair(t, r)
		if rapid.Bool().Draw(r, "quota") {
			most := int32(rapid.IntRange(1, 6).Draw(r, "most"))
			p.both(func(s *state, _ int) { s.apply(queueverbs.PutQuota{Tenant: "first", MaxGPUs: &most}) })
		}
		for range rapid.IntRange(5, 30).Draw(r, "steps") {
			p.step()
		}
		p.both(func(*state, int) {})
		told := p.told(0)
		require.Equal(r, told, p.told(1))
		require.Equal(r, told, p.told(0), "pure")
		foreseen += len(told) - 1
	})
	require.NotZero(t, foreseen)
}

// If jobs take as long as their limits and nothing else is submitted, the forecast comes true.
func TestForesee_comesTrue(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newState(t)
		for _, id := range []string{"n0", "n1", "n2"} {
			s.node(id, gpus(id, "H100", 4, 4), nil)
		}
		s.apply(queueverbs.PutQueue{Queue: work.Queue{Name: "narrow", MaxGPUs: 5}})
		var ids []ident.Job
		for range rapid.IntRange(1, 15).Draw(r, "jobs") {
			a := drawAsked(r, "t")
			a.limit = time.Duration(rapid.IntRange(1, 500).Draw(r, "minutes")) * time.Minute
			ids = append(ids, s.ask(a))
		}
		s.step = 0 // Changes at one time are applied without a step between them.
		begin := func() {
			s.run()
			for _, id := range ids {
				if s.get(id).State == v1.JobState_ALLOCATED {
					s.begin(id)
				}
			}
		}
		begin()
		foreseen, foreseenAt := s.foresee("t"), s.now.UnixNano()
		for {
			var ends []ident.Job
			at := int64(0)
			for _, id := range ids {
				j := s.get(id)
				end := j.StartedAt + j.MaxRuntime
				switch {
				case j.State != v1.JobState_RUNNING || len(ends) > 0 && end > at:
				case len(ends) > 0 && end == at:
					ends = append(ends, id)
				default:
					ends, at = []ident.Job{id}, end
				}
			}
			if len(ends) == 0 {
				break
			}
			s.now = time.Unix(0, at)
			for _, id := range ends {
				s.over(id, 0)
			}
			begin()
		}
		for _, id := range ids {
			start, ok := foreseen.Start(id)
			// Jobs that ran already have no start in the forecast, and neither have jobs that fit nowhere.
			require.Equal(r, ok, s.get(id).StartedAt > foreseenAt, "%s", id)
			if ok {
				require.Equal(r, s.get(id).StartedAt, start.At)
			}
		}
	})
}
