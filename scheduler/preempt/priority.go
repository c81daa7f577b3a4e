// Package preempt chooses running jobs to preempt, so that waiting jobs get their places.
//
// Contract. [ForPriority] decides for jobs of a higher priority, [ForGuarantees] for jobs within the guarantee of their
// queue, and an [Order] for jobs that come first by the policy's order. Like the planner they are pure: they read a view,
// and propose. The state checks each proposal.
//
// Guarantees. Only jobs that were submitted as preemptible are taken, and no guaranteed GPUs of another queue.
package preempt

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/picture"
	"github.com/mindcoordinator/mind/scheduler/quota"
)

// View is the part of the state that ForPriority and ForGuarantees read. *fsm.View implements it.
type View interface {
	quota.View
	NodesView
	Policy() policy.Policy
	Job(ident.Job) (*work.Job, bool)
	// LaneJobs are the jobs of a lane, the highest priority first, then the oldest.
	Lanes(class work.ClassKey) iter.Seq[work.LaneKey]
	LaneJobs(lane work.LaneKey) iter.Seq[*work.Job]
	ClaimOf(ident.Job) (*claims.Claim, bool)
	ActiveJobs() iter.Seq[*work.Job]
	LeasesOn(node string) iter.Seq[*work.Lease]
	Checkpoint(ident.Checkpoint) (*checkpoints.Checkpoint, bool)
	Lineage(queue string) iter.Seq[*work.Queue]
	Queues() iter.Seq[*work.Queue]
	Claims() iter.Seq[*claims.Claim]
	WindowsOn(node string) iter.Seq[*windows.Window]
}

// NodesView is the part of the state that an Order reads, besides the guarantees of queues if the view is a View.
type NodesView interface {
	Nodes() iter.Seq[*work.Node]
	Use(node string) work.NodeUse
	Windows() iter.Seq[*windows.Window]
	Promises() iter.Seq[*promises.Promise]
}

// maxPreemptions is the number of jobs that one pass makes room for. The next pass sees the results.
const maxPreemptions = 16

// ForPriority chooses victims for the first jobs of blocked classes. Victims are preemptible jobs of lower priority whose
// attempts have run for longer than the policy protects them. It takes those that lose the least: the GPU-seconds
// since their last checkpoint, and those of a restart. No job is taken that is not needed.
//
// A job whose last attempt may still be alive gets no places this way. Only the leader knows where it may run, and the
// state grants the places without the leader (rule R3).
//
// now is in Unix nanoseconds. It is pure, and the state checks its proposal.
func ForPriority(v View, blocked []work.ClassKey, now int64) []jobverbs.Preemption {
	victims := candidates(v, now)
	if len(victims) == 0 {
		return nil
	}
	var heads []*work.Job
	for _, key := range blocked {
		var first *work.Job
		for lane := range v.Lanes(key) {
			for j := range v.LaneJobs(lane) {
				if first == nil || order.Before(j, first) {
					first = j
				}
				break
			}
		}
		if first != nil {
			heads = append(heads, order.InFull(first, 1)...)
		}
	}
	slices.SortStableFunc(heads, func(a, b *work.Job) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), order.ByAge(a.ID, b.ID))
	})
	p := newPreemptor(v, victims, now)
	p.reserved = reservedOn(v)
	for _, j := range heads {
		if len(p.made) == maxPreemptions || len(p.victims) == 0 {
			break
		}
		if _, has := v.ClaimOf(j.ID); !has && !j.Replacement() && j.Priority > p.least() {
			p.preempt(j)
		}
	}
	return p.made
}

// victim is a running job that may be preempted.
type victim struct {
	job *work.Job
	// cost is in GPU-nanoseconds.
	cost float64
}

// candidates returns the jobs that may be preempted.
func candidates(v View, now int64) map[ident.Job]*victim {
	policy := v.Policy()
	found := map[ident.Job]*victim{}
	for j := range v.ActiveJobs() {
		if !j.Preemptible || j.Retry.Never || j.Stop != v1.StopReason_UNSPECIFIED || j.Ending != nil || j.ProtectedUntil(&policy) > now {
			continue
		}
		found[j.ID] = &victim{job: j, cost: costOf(v, j, now, &policy)}
	}
	return found
}

// costOf returns the GPU time that is lost if a job is preempted.
func costOf(v View, j *work.Job, now int64, policy *policy.Policy) float64 {
	saved := now
	if j.StartedAt != 0 {
		saved = j.StartedAt
	}
	if c, ok := v.Checkpoint(j.LastCheckpoint); ok && c.Attempt == j.Attempt {
		saved = max(saved, c.CreatedAt)
	}
	gpus := float64(max(1, j.Shape.GPUMilli())) / 1000
	return gpus * float64(now-saved+policy.Preemption.RestartCost)
}

// preemptor chooses the victims for one job after the other.
type preemptor struct {
	view    View
	victims map[ident.Job]*victim
	// taken are the resources, by node, that earlier jobs of the same pass get.
	taken map[string]work.Claimed
	// reserved are the places of reserved starts, by node.
	reserved map[string][]reservedPlace
	now      int64
	// made are the decisions so far.
	made []jobverbs.Preemption
	guards
}

func newPreemptor(v View, victims map[ident.Job]*victim, now int64) preemptor {
	return preemptor{view: v, victims: victims, taken: map[string]work.Claimed{}, now: max(now, v.Now()), guards: guardsOf(v)}
}

// reservedPlace is one place of a reserved start.
type reservedPlace struct {
	*promises.Promise
	job  *work.Job
	rank int
}

func reservedOn(v View) map[string][]reservedPlace {
	on := map[string][]reservedPlace{}
	for promise := range v.Promises() {
		j, ok := v.Job(promise.Job)
		if !ok {
			continue
		}
		for i := range promise.Tasks {
			node := promise.Tasks[i].Node
			on[node] = append(on[node], reservedPlace{promise, j, i})
		}
	}
	return on
}

// able reports whether a job may have places on a node at all.
func (p *preemptor) able(j *work.Job, n *work.Node) bool {
	if n.State != v1.NodeState_READY || j.Avoids(n.ID) {
		return false
	}
	for w := range p.view.WindowsOn(n.ID) {
		if !w.Admits(j, p.now) {
			return false
		}
	}
	return true
}

// use returns the resources of a node that a job cannot have: those of leases and claims, those that earlier jobs of
// the pass get, and the GPUs that are reserved for jobs which are at least as urgent while the job would run. CPUs and
// memory of reserved starts do not count, because the present jobs of the node hold most of them until then.
func (p *preemptor) use(j *work.Job, n *work.Node) work.NodeUse {
	use := p.view.Use(n.ID)
	use.Claim(p.taken[n.ID])
	for _, place := range p.reserved[n.ID] {
		if place.Job != j.ID && place.job.Priority >= j.Priority && place.During(p.now, promises.EndOf(j, p.now)) {
			use.Claim(work.Claimed{GPUs: place.Tasks[place.rank].GPUs})
		}
	}
	return use
}

// least returns the lowest priority of the remaining victims.
func (p *preemptor) least() uint8 {
	least := uint8(255)
	for _, v := range p.victims {
		least = min(least, v.job.Priority)
	}
	return least
}

// spot is a place for one task, and the victims that have to leave for it.
type spot struct {
	node    *work.Node
	gpus    uint64
	victims []ident.Job
	cost    float64
}

// preempt finds places and victims for all tasks of a job. It returns false if there are none, even if all victims
// left.
func (p *preemptor) preempt(j *work.Job) bool {
	byKind := map[string][]*spot{}
	var kinds []string
	for n := range p.view.Nodes() {
		s := &spot{node: n}
		if !p.able(j, n) || !p.survey(j, s, nil) {
			continue
		}
		kind := ""
		if j.Shape.Nodes > 1 && j.Shape.NeedsGPU() {
			kind = picture.GangKind(&j.Shape, n) // the tasks of a gang run on equal nodes
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
		spots, leaves, cost := p.gang(j, byKind[kind])
		if spots != nil && cost < least {
			best, leave, least = spots, leaves, cost
		}
	}
	if best == nil {
		return false
	}
	p.spare(j, best, leave)
	if len(leave) == 0 || len(leave) > claims.MaxVictims || p.barred(j, leave) || p.withheld(j, best, leave, false) {
		return false
	}
	p.decide(j, best, leave)
	return true
}

// gang takes the cheapest places one after the other. A victim leaves all its nodes, so gang computes the cost of its
// other nodes again.
func (p *preemptor) gang(j *work.Job, spots []*spot) ([]*spot, map[ident.Job]bool, float64) {
	want := max(1, int(j.Shape.Nodes))
	if len(spots) < want {
		return nil, nil, 0
	}
	on := map[string]*spot{}
	for _, s := range spots {
		on[s.node.ID] = s
	}
	var chosen []*spot
	leave, total := map[ident.Job]bool{}, 0.0
	for len(chosen) < want {
		var best *spot
		for _, s := range spots {
			if on[s.node.ID] != nil && (best == nil || s.cost < best.cost) {
				best = s
			}
		}
		delete(on, best.node.ID)
		chosen = append(chosen, best)
		for _, id := range best.victims {
			leave[id] = true
			total += p.victims[id].cost
		}
		for _, id := range best.victims {
			for i := range p.victims[id].job.Tasks {
				if s := on[p.victims[id].job.Tasks[i].Node]; s != nil {
					p.survey(j, s, leave)
				}
			}
		}
	}
	return chosen, leave, total
}

// survey finds the victims that make room for a task on a node, beside the jobs that leave anyway. It returns false if
// the task does not fit even if all victims leave.
func (p *preemptor) survey(j *work.Job, s *spot, leave map[ident.Job]bool) bool {
	use := p.use(j, s.node)
	var leases []*work.Lease
	for l := range p.view.LeasesOn(s.node.ID) {
		if leave[l.Job] {
			use.Remove(l)
		} else if v := p.victims[l.Job]; v != nil && v.job.Priority < j.Priority && !p.guarded(v.job, j) {
			leases = append(leases, l)
		}
	}
	s.victims, s.cost = nil, 0
	gpus, fits := picture.Choose(s.node, &use, j.Shape)
	if !fits {
		slices.SortStableFunc(leases, func(a, b *work.Lease) int {
			return cmp.Or(cmp.Compare(p.victims[a.Job].cost, p.victims[b.Job].cost), cmp.Compare(a.Job, b.Job))
		})
		taken := 0
		for ; taken < len(leases) && !fits; taken++ {
			use.Remove(leases[taken])
			gpus, fits = picture.Choose(s.node, &use, j.Shape)
		}
		if !fits {
			return false
		}
		// Victims that turned out not to be needed stay, the most expensive first.
		for i := taken - 1; i >= 0; i-- {
			use.Add(leases[i])
			if again, still := picture.Choose(s.node, &use, j.Shape); still {
				gpus = again
				continue
			}
			use.Remove(leases[i])
			s.victims = append(s.victims, leases[i].Job)
			s.cost += p.victims[leases[i].Job].cost
		}
	}
	s.gpus = gpus
	return true
}

// spare removes victims that are not needed once all places are known: a job on several nodes may have been chosen for
// one place, and other victims later for its other nodes.
func (p *preemptor) spare(j *work.Job, spots []*spot, leave map[ident.Job]bool) {
	ids := slices.SortedFunc(maps.Keys(leave), func(a, b ident.Job) int {
		return cmp.Or(cmp.Compare(p.victims[b].cost, p.victims[a].cost), cmp.Compare(a, b))
	})
	for _, id := range ids {
		delete(leave, id)
		for _, s := range spots {
			use := p.use(j, s.node)
			for l := range p.view.LeasesOn(s.node.ID) {
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

// barred reports whether a limit of the job's tenant or queue bars it even when its victims have left and the earlier
// jobs of the pass have started.
func (p *preemptor) barred(j *work.Job, leave map[ident.Job]bool) bool {
	queues, tenant := map[string]int{}, p.view.Usage(j.Tenant)
	count := func(o *work.Job, sign int) {
		for q := range p.view.Lineage(o.Queue) {
			queues[q.Name] += sign * o.Shape.GPUMilli()
		}
		if o.Tenant == j.Tenant {
			tenant.GPUMilli += sign * o.Shape.GPUMilli()
			tenant.Running += sign
		}
	}
	for id := range leave {
		count(p.victims[id].job, -1)
	}
	for _, m := range p.made {
		if o, ok := p.view.Job(m.Job); ok {
			count(o, 1)
		}
	}
	if a, ok := p.view.Array(j.ID.Submitted()); ok && j.MaxParallel != 0 && a.Array.Rows.Live >= j.MaxParallel {
		return true
	}
	for q := range p.view.Lineage(j.Queue) {
		if q.Bars(p.view.QueueTreeGPUs(q.Name)+queues[q.Name], j.Shape) != "" {
			return true
		}
	}
	q, ok := p.view.Quota(j.Tenant)
	return ok && q.Bars(tenant, j.Shape) != ""
}

func (p *preemptor) decide(j *work.Job, spots []*spot, leave map[ident.Job]bool) {
	m := jobverbs.Preemption{Job: j.ID, Attempt: j.Attempt + 1}
	for _, s := range spots {
		m.Tasks = append(m.Tasks, work.TaskPlacement{Node: s.node.ID, GPUs: s.gpus})
		taken := work.NodeUse{Claimed: p.taken[s.node.ID]}
		taken.Claim(work.Claimed{GPUs: s.gpus, CPUs: j.Shape.CPUDemand(), MemMB: j.Shape.MemMB})
		p.taken[s.node.ID] = taken.Claimed
	}
	for _, id := range slices.Sorted(maps.Keys(leave)) {
		m.Victims = append(m.Victims, jobverbs.Victim{Job: id, Attempt: p.victims[id].job.Attempt})
		delete(p.victims, id)
	}
	p.made = append(p.made, m)
}
