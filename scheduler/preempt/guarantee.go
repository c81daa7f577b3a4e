package preempt

import (
	"cmp"
	"maps"
	"math"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/guarantee"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/picture"
)

// guards protect the guaranteed GPUs of queues from the jobs of other queues.
type guards struct {
	// balance is nil if no queue has a guarantee.
	balance *guarantee.Balance
	view    View
}

func guardsOf(v NodesView) guards {
	p, ok := v.(View)
	if !ok {
		return guards{}
	}
	for q := range p.Queues() {
		if q.Guaranteed > 0 {
			return guards{guarantee.New(p, p.QueueTreeGPUs, p.Claims(), p.Job), p}
		}
	}
	return guards{}
}

// guarded reports whether the GPUs of a running job v must not be taken for a job j.
func (g *guards) guarded(v, j *work.Job) bool {
	return g.balance != nil && !g.balance.Borrows(v, j, nil, false)
}

// ForGuarantees chooses victims for the first jobs of blocked classes that are within the guarantee of their queue. Victims
// are preemptible jobs of queues that hold more than their guarantee, whatever their priority and however short they
// have run. The most saturated queue gives back first; of its jobs, those of the lowest priority; and of these, those
// that lose the least. No job is taken that is not needed.
//
// Like [ForPriority], ForGuarantees is pure, and the state checks its proposal.
func ForGuarantees(v View, blocked []work.ClassKey, now int64) []jobverbs.Preemption {
	g := guardsOf(v)
	if g.balance == nil {
		return nil
	}
	heads := g.due(v, blocked)
	if len(heads) == 0 {
		return nil
	}
	r := &reclaimer{preemptor: newPreemptor(v, borrowers(v, now), now)}
	for _, j := range heads {
		if len(r.made) == maxPreemptions || len(r.victims) == 0 {
			break
		}
		if r.covering = r.balance.Covering(j); len(r.covering) > 0 {
			r.reclaim(j)
		}
	}
	return r.made
}

// due returns the first jobs of blocked classes that are within a guarantee, those of the least saturated queues first.
func (g *guards) due(v View, blocked []work.ClassKey) []*work.Job {
	type head struct {
		job   *work.Job
		holds float64
	}
	var heads []head
	for _, key := range blocked {
		if key.Shape.GPUMilli() == 0 || len(g.balance.Covering(&work.Job{Queue: key.Queue, Shape: key.Shape})) == 0 {
			continue
		}
		var first *work.Job
		for lane := range v.Lanes(key) {
			for j := range v.LaneJobs(lane) {
				if first == nil || order.Before(j, first) {
					first = j
				}
				break
			}
		}
		if first == nil || first.Replacement() {
			continue
		}
		if full := order.InFull(first, 1); len(full) > 0 {
			first = full[0]
		} else {
			continue
		}
		if _, has := v.ClaimOf(first.ID); !has {
			heads = append(heads, head{first, g.balance.Saturation(first, &work.Job{})})
		}
	}
	slices.SortStableFunc(heads, func(a, b head) int {
		return cmp.Or(cmp.Compare(a.holds, b.holds), cmp.Compare(b.job.Priority, a.job.Priority), order.ByAge(a.job.ID, b.job.ID))
	})
	jobs := make([]*work.Job, len(heads))
	for i := range heads {
		jobs[i] = heads[i].job
	}
	return jobs
}

// borrowers returns the jobs that may be victims of a reclaim. The policy's protection does not count.
func borrowers(v View, now int64) map[ident.Job]*victim {
	policy := v.Policy()
	found := map[ident.Job]*victim{}
	for j := range v.ActiveJobs() {
		if j.Preemptible && !j.Retry.Never && j.Stop == v1.StopReason_UNSPECIFIED && j.Ending == nil && j.Shape.GPUMilli() > 0 {
			found[j.ID] = &victim{job: j, cost: costOf(v, j, now, &policy)}
		}
	}
	return found
}

// reclaimer chooses the victims of reclaims.
type reclaimer struct {
	preemptor
	// covering are the queues whose guarantees cover the job that is decided now.
	covering []string
}

// reclaim finds places and victims for a job within its guarantee.
func (r *reclaimer) reclaim(j *work.Job) {
	byKind := map[string][]*spot{}
	var kinds []string
	for n := range r.view.Nodes() {
		s := &spot{node: n}
		if !r.able(j, n) || !r.survey(j, s, nil, r.balance) {
			continue
		}
		kind := ""
		if j.Shape.Nodes > 1 {
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
		if spots, leaves, cost := r.gang(j, byKind[kind]); spots != nil && cost < least {
			best, leave, least = spots, leaves, cost
		}
	}
	if best == nil {
		return
	}
	r.spare(j, best, leave)
	if len(leave) == 0 || len(leave) > claims.MaxVictims || r.barred(j, leave) || r.withheld(j, best, leave, true) {
		return
	}
	for id := range leave { // order-free: a sum
		r.balance.Move(r.victims[id].job, -1)
	}
	r.balance.Move(j, 1)
	r.decide(j, best, leave)
	r.made[len(r.made)-1].Reclaim = true
}

// gang takes the cheapest places one after the other. The cost of each depends on the victims of those before it, so
// gang computes it again before it takes the place.
func (r *reclaimer) gang(j *work.Job, spots []*spot) ([]*spot, map[ident.Job]bool, float64) {
	want := max(1, int(j.Shape.Nodes))
	balance, leave, total := r.balance.Clone(), map[ident.Job]bool{}, 0.0
	left, fresh := slices.Clone(spots), map[*spot]bool{}
	var chosen []*spot
	for _, s := range left {
		fresh[s] = true
	}
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
		if !fresh[best] {
			if fresh[best] = r.survey(j, best, leave, balance); !fresh[best] {
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
		clear(fresh)
		for _, id := range best.victims {
			leave[id] = true
			balance.Move(r.victims[id].job, -1)
		}
		left = slices.DeleteFunc(left, func(s *spot) bool {
			shared := slices.ContainsFunc(best.victims, func(id ident.Job) bool { return r.victims[id].job.TaskOn(s.node.ID) })
			return shared && !r.survey(j, s, leave, balance)
		})
	}
	return chosen, leave, total
}

// survey finds the victims that make room for a task on a node, beside the jobs that leave anyway. It takes a job only
// while its queue holds more than its guarantee. It returns false if the task does not fit even then.
func (r *reclaimer) survey(j *work.Job, s *spot, leave map[ident.Job]bool, balance *guarantee.Balance) bool {
	use := r.use(j, s.node)
	var held []*work.Lease
	for l := range r.view.LeasesOn(s.node.ID) {
		if leave[l.Job] {
			use.Remove(l)
		} else if r.victims[l.Job] != nil {
			held = append(held, l)
		}
	}
	s.victims, s.cost = nil, 0
	gpus, fits := picture.Choose(s.node, &use, j.Shape)
	if s.gpus = gpus; fits {
		return true
	}
	if len(held) == 0 {
		return false
	}
	balance = balance.Clone()
	var taken []*work.Lease
	var prices []float64
	for !fits {
		at, price := -1, 0.0
		for i, l := range held {
			v := r.victims[l.Job]
			if !balance.Borrows(v.job, j, r.covering, true) {
				continue
			}
			if p := r.price(v, j, balance); at < 0 || p < price {
				at, price = i, p
			}
		}
		if at < 0 {
			return false
		}
		taken, prices = append(taken, held[at]), append(prices, price)
		use.Remove(held[at])
		balance.Move(r.victims[held[at].Job].job, -1)
		held = slices.Delete(held, at, at+1)
		gpus, fits = picture.Choose(s.node, &use, j.Shape)
	}
	// Victims that turned out not to be needed stay, the most expensive first.
	for i := len(taken) - 1; i >= 0; i-- {
		use.Add(taken[i])
		if again, still := picture.Choose(s.node, &use, j.Shape); still {
			gpus = again
			continue
		}
		use.Remove(taken[i])
		s.victims = append(s.victims, taken[i].Job)
		s.cost += prices[i]
	}
	s.gpus = gpus
	return true
}

const (
	// bySaturation and byPriority weigh the price of a victim: the saturation of its queue counts more than its
	// priority, and its priority more than the loss in GPU-nanoseconds.
	bySaturation = 1e21
	byPriority   = 1e17
)

// price returns the cost of a victim; higher for less saturated queues.
func (r *reclaimer) price(v *victim, j *work.Job, balance *guarantee.Balance) float64 {
	gpus := float64(v.job.Shape.GPUMilli()) / 1000
	return gpus*(bySaturation/(1+balance.Saturation(v.job, j))+byPriority*float64(v.job.Priority)) + v.cost
}

// withheld reports whether the state would refuse a preemption: because it takes guaranteed GPUs of another queue,
// because the places have more GPUs of a type than a limit allows, or because the GPU hours are used up.
func (p *preemptor) withheld(j *work.Job, spots []*spot, leave map[ident.Job]bool, reclaim bool) bool {
	var jobs []*work.Job
	for _, id := range slices.Sorted(maps.Keys(leave)) {
		jobs = append(jobs, p.victims[id].job)
	}
	if p.balance != nil {
		if at, _ := p.balance.Protects(j, jobs, reclaim); at != nil {
			return true
		}
	}
	if q, ok := p.view.Quota(j.Tenant); ok && q.BarsHours(p.view.Budget(j.Tenant).SpentBy(p.view.Now()), p.view.Now(), j.Shape) != "" {
		return true
	}
	return p.overTypes(j, spots, jobs)
}

func (p *preemptor) overTypes(j *work.Job, spots []*spot, leave []*work.Job) bool {
	quota, limited := p.view.Quota(j.Tenant)
	limited = limited && len(quota.MaxByType) > 0
	for q := range p.view.Lineage(j.Queue) {
		limited = limited || len(q.MaxByType) > 0
	}
	if !limited {
		return false
	}
	var places []work.TaskPlacement
	for _, s := range spots {
		places = append(places, work.TaskPlacement{Node: s.node.ID, GPUs: s.gpus})
	}
	for _, need := range work.TypesOf(places, j.Shape, p.view.Node) {
		queues, own := map[string]int{}, 0
		count := func(o *work.Job, tasks []work.TaskPlacement, sign int) {
			for _, t := range work.TypesOf(tasks, o.Shape, p.view.Node) {
				if t.Type != need.Type {
					continue
				}
				for q := range p.view.Lineage(o.Queue) {
					queues[q.Name] += sign * t.Milli
				}
				if o.Tenant == j.Tenant {
					own += sign * t.Milli
				}
			}
		}
		for _, o := range leave {
			count(o, work.Placed(o.Tasks), -1)
		}
		for _, m := range p.made {
			if o, ok := p.view.Job(m.Job); ok {
				count(o, m.Tasks, 1)
			}
		}
		for q := range p.view.Lineage(j.Queue) {
			if q.BarsType(need.Type, p.view.QueueTreeOfType(q.Name, need.Type)+queues[q.Name], need.Milli) != "" {
				return true
			}
		}
		if quota != nil && quota.BarsType(need.Type, p.view.HeldOfType(j.Tenant, need.Type)+own, need.Milli) != "" {
			return true
		}
	}
	return false
}
