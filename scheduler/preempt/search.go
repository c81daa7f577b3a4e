package preempt

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/guarantee"
	"github.com/mindcoordinator/mind/scheduler/picture"
)

// victim is a running job that may be preempted.
type victim struct {
	job *work.Job
	// cost is the GPU time that is lost if the job is preempted, in GPU-nanoseconds.
	cost float64
}

// held is a lease on a node, of a job that may be preempted.
type held[V any] struct {
	victim V
	lease  *work.Lease
}

// taken is a job that has to leave a node, and its price.
type taken[V any] struct {
	held[V]
	price float64
}

// rules say which jobs a search may take, and the price of each.
type rules[V any] struct {
	may   func(V) bool
	price func(V) float64
	// took is called for each job that is taken, if may and price depend on the jobs that were taken before; nil: they
	// do not.
	took func(V)
	// all: jobs that turn out not to be needed leave, too. An Order does so, because a job that stays among others
	// breaks up a node: putting them back made the waits of the Philly trace 3 % longer.
	all bool
	// left are the jobs that were not taken, and memory is the memory for them.
	left, memory []held[V]
}

// clear finds the jobs that have to leave a node, so that a task of a shape fits beside the given use of the node. It
// takes the cheapest job until the task fits, and puts back each job that turns out not to be needed, the last one
// first. The jobs that stay taken are in the order in which they were taken. It returns false if the task does not fit
// even without all of them.
func (r *rules[V]) clear(n *work.Node, use work.NodeUse, s work.Shape, on []held[V]) (gpus uint64, all []taken[V], ok bool) {
	gpus, ok = picture.Choose(n, &use, s)
	if ok || len(on) == 0 {
		return gpus, nil, ok
	}
	r.memory = append(r.memory[:0], on...)
	r.left = r.memory
	if r.took == nil {
		slices.SortStableFunc(r.left, func(a, b held[V]) int { return cmp.Compare(r.price(a.victim), r.price(b.victim)) })
	}
	for !ok {
		next, more := r.next()
		if !more {
			return 0, nil, false
		}
		all = append(all, next)
		use.Remove(next.lease)
		gpus, ok = picture.Choose(n, &use, s)
	}
	for i := len(all) - 1; i >= 0 && !r.all; i-- {
		use.Add(all[i].lease)
		if again, still := picture.Choose(n, &use, s); still {
			gpus, all = again, slices.Delete(all, i, i+1)
			continue
		}
		use.Remove(all[i].lease)
	}
	return gpus, all, true
}

// next takes the cheapest job that may be taken now; false: there is none.
func (r *rules[V]) next() (taken[V], bool) {
	if r.took == nil {
		for i, h := range r.left { // the cheapest first
			if r.may(h.victim) {
				r.left = r.left[i+1:]
				return taken[V]{h, r.price(h.victim)}, true
			}
		}
		return taken[V]{}, false
	}
	at, least := -1, 0.0
	for i := range r.left {
		if !r.may(r.left[i].victim) {
			continue
		}
		if price := r.price(r.left[i].victim); at < 0 || price < least {
			at, least = i, price
		}
	}
	if at < 0 {
		return taken[V]{}, false
	}
	h := r.left[at]
	r.left = slices.Delete(r.left, at, at+1)
	r.took(h.victim)
	return taken[V]{h, least}, true
}

// spot is a place for one task, and the victims that have to leave for it.
type spot struct {
	node    *work.Node
	gpus    uint64
	victims []ident.Job
	cost    float64
}

// rulesFor returns the rules of one search for a job. Those that depend on what was taken before read and move the given
// balance.
type rulesFor func(j *work.Job, balance *guarantee.Balance) rules[*victim]

// makeRoom finds places and victims for all tasks of a job: the cheapest ones, on equal nodes if it is a gang. It
// returns false if there are none, even if all victims left, or if the state would refuse them.
func (m *maker) makeRoom(j *work.Job) bool {
	byKind := map[string][]*spot{}
	var kinds []string
	for n := range m.view.Nodes() {
		s := &spot{node: n}
		if !m.able(j, n) || !m.survey(j, s, nil, m.balance) {
			continue
		}
		kind := ""
		if j.Shape.Nodes > 1 && j.Shape.NeedsGPU() {
			kind = picture.GangKind(&j.Shape, n)
		}
		if byKind[kind] == nil {
			kinds = append(kinds, kind)
		}
		byKind[kind] = append(byKind[kind], s)
	}
	var (
		best  []*spot
		leave map[ident.Job]bool
		least = math.Inf(1)
	)
	for _, kind := range kinds {
		if spots, leaves, cost := m.gang(j, byKind[kind]); spots != nil && cost < least {
			best, leave, least = spots, leaves, cost
		}
	}
	if best == nil {
		return false
	}
	m.spare(j, best, leave)
	return m.decide(j, best, leave)
}

// gang takes the cheapest places one after the other. A victim leaves all its nodes, and may change the prices of
// others, so gang looks at a place again before it takes it. It returns nil if there are too few places.
func (m *maker) gang(j *work.Job, spots []*spot) ([]*spot, map[ident.Job]bool, float64) {
	want := max(1, int(j.Shape.Nodes))
	if len(spots) < want {
		return nil, nil, 0
	}
	balance := m.balance
	if m.moves {
		balance = balance.Clone()
	}
	leave, total := map[ident.Job]bool{}, 0.0
	left, stale := slices.Clone(spots), map[*spot]bool{}
	var chosen []*spot
	for len(chosen) < want {
		at := -1
		for i, s := range left {
			if at < 0 || s.cost < left[at].cost {
				at = i
			}
		}
		if at < 0 {
			return nil, nil, 0
		}
		best := left[at]
		if stale[best] {
			if delete(stale, best); !m.survey(j, best, leave, balance) {
				left = slices.Delete(left, at, at+1)
			}
			continue
		}
		left = slices.Delete(left, at, at+1)
		chosen = append(chosen, best)
		total += best.cost
		if len(best.victims) == 0 {
			continue
		}
		for _, id := range best.victims {
			leave[id] = true
			if m.moves {
				balance.Move(m.victims[id].job, -1)
			}
		}
		left = slices.DeleteFunc(left, func(s *spot) bool {
			shared := slices.ContainsFunc(best.victims, func(id ident.Job) bool { return m.victims[id].job.TaskOn(s.node.ID) })
			if m.moves {
				stale[s] = true
			}
			return shared && !m.survey(j, s, leave, balance)
		})
	}
	return chosen, leave, total
}

// survey finds the victims that make room for a task on a node, beside the jobs that leave anyway. It returns false if
// the task does not fit even if all that may leave do.
func (m *maker) survey(j *work.Job, s *spot, leave map[ident.Job]bool, balance *guarantee.Balance) bool {
	use := m.use(j, s.node)
	var on []held[*victim]
	for l := range m.view.LeasesOn(s.node.ID) {
		if leave[l.Job] {
			use.Remove(l)
		} else if v := m.victims[l.Job]; v != nil {
			on = append(on, held[*victim]{v, l})
		}
	}
	if m.moves && len(on) > 0 {
		balance = balance.Clone()
	}
	r := m.rules(j, balance)
	gpus, all, ok := r.clear(s.node, use, j.Shape, on)
	s.gpus, s.victims, s.cost = gpus, nil, 0
	for _, t := range slices.Backward(all) {
		s.victims = append(s.victims, t.lease.Job)
		s.cost += t.price
	}
	return ok
}

// spare removes victims that are not needed once all places are known: a job on several nodes may have been chosen for
// one place, and other victims later for its other nodes.
func (m *maker) spare(j *work.Job, spots []*spot, leave map[ident.Job]bool) {
	ids := slices.SortedFunc(maps.Keys(leave), func(a, b ident.Job) int {
		return cmp.Or(cmp.Compare(m.victims[b].cost, m.victims[a].cost), cmp.Compare(a, b))
	})
	for _, id := range ids {
		delete(leave, id)
		for _, s := range spots {
			use := m.use(j, s.node)
			for l := range m.view.LeasesOn(s.node.ID) {
				if leave[l.Job] {
					use.Remove(l)
				}
			}
			if work.CheckTask(s.node, &use, j.Shape, s.gpus) != nil {
				leave[id] = true
				break
			}
		}
	}
}
