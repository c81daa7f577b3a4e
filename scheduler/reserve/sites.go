package reserve

import (
	"cmp"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/scheduler/picture"
)

// mostSteps bounds the search for a time at which enough nodes are free together.
const mostSteps = 64

// sites are the ready nodes, with the times at which their leases end and with reserved starts. Nodes in a maintenance
// or a reservation are not among them: no start is reserved there.
type sites struct {
	all    []*site // by id
	byName map[string]*site
	usable map[work.Shape][]usable
}

// site is a node with its future.
type site struct {
	*picture.Later
	reserved []*reservedStart
}

// reservedStart is a start that must not be delayed by those that are decided later.
type reservedStart struct {
	promises.Promise
	above int
	// passing: the job starts now, so no start is reserved for it.
	passing bool
}

func newSites(v View, now int64) *sites {
	t := &sites{byName: map[string]*site{}, usable: map[work.Shape][]usable{}}
	arranged := map[string]bool{}
	for w := range v.Windows() {
		for _, node := range w.Nodes {
			arranged[node] = true
		}
	}
	for n := range v.Nodes() {
		if n.State != v1.NodeState_READY || arranged[n.ID] {
			continue
		}
		use := v.Use(n.ID)
		s := &site{Later: (&picture.Node{Node: n, Use: &use}).See(v, now)}
		t.all = append(t.all, s)
		t.byName[n.ID] = s
	}
	return t
}

func (t *sites) named(node string) *site { return t.byName[node] }

// enter adds a start to the sites, so that later decisions do not delay it.
func (t *sites) enter(c *candidate, start *jobverbs.Start, passing bool) {
	p := &reservedStart{above: c.above, passing: passing, Promise: promises.Promise{
		Job: c.job.ID, StartAt: start.At, Until: promises.EndOf(c.job, start.At), Tasks: start.Tasks,
		CPUs: c.job.Shape.CPUDemand(), MemMB: c.job.Shape.MemMB,
	}}
	for i := range p.Tasks {
		if s := t.byName[p.Tasks[i].Node]; s != nil {
			s.reserved = append(s.reserved, p)
		}
	}
}

// forget removes the reserved start of a job from the sites.
func (t *sites) forget(old *promises.Promise) {
	for i := range old.Tasks {
		if s := t.byName[old.Tasks[i].Node]; s != nil {
			s.reserved = slices.DeleteFunc(s.reserved, func(p *reservedStart) bool { return p.Job == old.Job })
		}
	}
}

// find returns the earliest start of a job within [from, before) that delays no start of a job which is at least as
// urgent; nil: none is known. Of the nodes that are free by then it takes those that become free last, so that the
// others can be used until then.
func (t *sites) find(j *work.Job, from, before int64, above int) *jobverbs.Start {
	want := max(1, int(j.Shape.Nodes))
	for range mostSteps {
		at, found := t.search(j, from, before, above, want)
		if at == 0 {
			return nil
		}
		if len(found) >= want {
			return t.choose(j, at, found[:want], above)
		}
		from = at + 1
	}
	return nil
}

// free is a site with the time at which it is free for a task.
type free struct {
	*site
	usable *usable
	at     int64
}

// search returns the first time at which enough nodes might be free (0: never), and the nodes that are free then, the
// one that became free last first. The nodes of a gang have equal GPUs.
func (t *sites) search(j *work.Job, from, before int64, above, want int) (int64, []free) {
	byKind := map[string][]free{}
	var kinds []string
	all := t.usableBy(j.Shape)
	for i, s := range t.all {
		at := s.earliest(j, &all[i], from, before, above)
		if at == 0 {
			continue
		}
		kind := ""
		if want > 1 && j.Shape.NeedsGPU() {
			kind = all[i].equalOf(s.Node.Node, &j.Shape)
		}
		if byKind[kind] == nil {
			kinds = append(kinds, kind)
		}
		byKind[kind] = append(byKind[kind], free{s, &all[i], at})
	}
	first, best := int64(0), ""
	for _, kind := range kinds {
		if on := byKind[kind]; len(on) >= want {
			slices.SortStableFunc(on, func(a, b free) int { return cmp.Compare(a.at, b.at) })
			if at := on[want-1].at; first == 0 || at < first {
				first, best = at, kind
			}
		}
	}
	if first == 0 {
		return 0, nil
	}
	var found []free
	for _, f := range slices.Backward(byKind[best]) {
		if f.at <= first && (len(f.reserved) == 0 || f.at == first || f.earliest(j, f.usable, first, before, above) == first) {
			found = append(found, f)
		}
	}
	return first, found
}

// choose picks the GPUs of a start on the given sites; nil: a task does not fit.
func (t *sites) choose(j *work.Job, at int64, on []free, above int) *jobverbs.Start {
	start := &jobverbs.Start{Job: j.ID, Attempt: j.Attempt + 1, At: at}
	until := promises.EndOf(j, at)
	slices.SortFunc(on, func(a, b free) int { return cmp.Compare(a.ID, b.ID) })
	for _, f := range on {
		use := f.When(at)
		f.reserve(&use, at, until, above)
		gpus, ok := picture.Choose(f.Node.Node, &use, j.Shape)
		if !ok {
			return nil
		}
		start.Tasks = append(start.Tasks, work.TaskPlacement{Node: f.ID, GPUs: gpus})
	}
	return start
}

// reserve adds to use the reserved places, at any time within [from, to), of jobs that are at least as urgent.
func (s *site) reserve(use *work.NodeUse, from, to int64, above int) {
	for _, p := range s.reserved {
		if p.above > above || !p.During(from, to) || p.passing && p.Until != 0 && p.Until <= from+Little {
			continue
		}
		for i := range p.Tasks {
			if p.Tasks[i].Node == s.ID {
				use.Claim(p.Of(i))
			}
		}
	}
}

// earliest returns the first time within [from, before) from which on a task fits for as long as its job may take; 0:
// there is none.
func (s *site) earliest(j *work.Job, u *usable, from, before int64, above int) int64 {
	if !u.could || from >= before || j.Avoids(s.ID) {
		return 0
	}
	var room [16]int64
	times := append(room[:0], from)
	for i := range s.Leases {
		if at := s.Leases[i].At; at > from && at < before {
			times = append(times, at)
		}
	}
	for _, p := range s.reserved {
		if p.Until > from && p.Until < before {
			times = append(times, p.Until)
		}
	}
	slices.Sort(times)
	use, left := *s.Use, 0
	claimed := use.Claimed
	for _, at := range times {
		for ; left < len(s.Leases) && s.Leases[left].At != 0 && s.Leases[left].At <= at; left++ {
			use.Remove(s.Leases[left].Lease)
		}
		use.Claimed = claimed
		s.reserve(&use, at, promises.EndOf(j, at), above)
		if u.fits(s.Node.Node, &use, j.Shape) {
			return at
		}
	}
	return 0
}
