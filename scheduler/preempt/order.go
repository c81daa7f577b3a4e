package preempt

import (
	"cmp"
	"iter"
	"math"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/picture"
)

const (
	// MostPreempted is how often a job is preempted at most, so that it ends at some time.
	MostPreempted = 8
	// worthwhile bounds the victims: a job that needs less than so many times the cost of a restart is nearly done, and
	// stays.
	worthwhile = 12
	// movable is the largest number of GPUs of a victim that is expected to find another place at once, if as many are
	// free elsewhere.
	movable = 2
)

// Running is a job with a live attempt. SavedAt is the time of its newest checkpoint, in Unix nanoseconds; 0: it has
// none.
type Running struct {
	Job     *work.Job
	SavedAt int64
}

// RunningIn iterates the jobs of a view that have a live attempt.
func RunningIn(v *fsm.View) iter.Seq[Running] {
	return func(yield func(Running) bool) {
		for j := range v.ActiveJobs() {
			r := Running{Job: j}
			if c, ok := v.Checkpoint(j.LastCheckpoint); ok && j.LastCheckpoint != 0 {
				r.SavedAt = c.CreatedAt
			}
			if !yield(r) {
				return
			}
		}
	}
}

// Decision preempts jobs for another job, which gets the given places. The places consist of free GPUs and of
// those of the victims. They must be kept for that job, or the next pass may give them to another one.
type Decision struct {
	Victims []ident.Job
	For     work.Placement
}

// Order chooses victims and the jobs that they are preempted for. It keeps a model of the nodes in which its
// earlier decisions have been carried out.
//
// A job is preempted for one of three reasons:
//   - the other job has a higher priority, after aging,
//   - the other job needs much less GPU time (Preemption.Ratio), which is worth the victim's waiting,
//   - the victim is small and finds another place at once, so that it loses only the time of its restart. This makes
//     room for jobs that need whole nodes while the free GPUs are scattered. The victims together lose no more time
//     than the job has waited.
//
// For the last two reasons, a victim must have saved a checkpoint since the last decision, so that it loses little
// work.
type Order struct {
	ranking *order.Ranking
	hosts   []*holder
	byName  map[string]*holder
	gone    map[ident.Job]bool
	free    int // GPUs
	// hopeless are, by need, the best priorities for which no victims were found.
	hopeless map[need]int
	windows  []*windows.Window
	guards
}

// need has all properties of a job that decide about its places. term and tenant are set only if there are windows.
type need struct {
	shape  work.Shape
	term   work.Term
	tenant string
}

// holder is a node with those of its jobs that may be victims.
type holder struct {
	*picture.Node
	free int
	held []held[*stoppable]
}

// stoppable is a running job that may be a victim.
type stoppable struct {
	job   *work.Job
	above int     // as in rank
	left  int64   // predicted
	loss  int64   // since its newest checkpoint
	gpus  float64 // on one node
	saved bool    // since the last decision
}

// way is a way to get one node for a job, with its cost in GPU time.
type way struct {
	host    *holder
	victims []*stoppable
	gpus    uint64
	cost    float64
}

// NewOrder reads the nodes of a view, and the running jobs that may be preempted.
func NewOrder(v NodesView, r *order.Ranking, running iter.Seq[Running]) *Order {
	p := &Order{ranking: r, byName: map[string]*holder{}, gone: map[ident.Job]bool{}, hopeless: map[need]int{}, windows: slices.Collect(v.Windows())}
	p.guards = guardsOf(v)
	for node := range v.Nodes() {
		if node.State != v1.NodeState_READY {
			continue
		}
		use := v.Use(node.ID)
		h := &holder{Node: &picture.Node{Node: node, Use: &use}}
		h.count()
		p.free += h.free
		p.hosts = append(p.hosts, h)
		p.byName[node.ID] = h
	}
	p.keepReserved(v)
	for x := range running {
		if y, ok := p.mayStop(x); ok {
			for i := range x.Job.Tasks {
				if h := p.byName[x.Job.Tasks[i].Node]; h != nil {
					h.held = append(h.held, held[*stoppable]{y, picture.LeaseOf(x.Job, &work.TaskPlacement{GPUs: x.Job.Tasks[i].GPUs})})
				}
			}
		}
	}
	for _, h := range p.hosts { // Each search sorts them, which takes less time when they are in order.
		slices.SortStableFunc(h.held, func(a, b held[*stoppable]) int { return cmp.Compare(a.victim.price(), b.victim.price()) })
	}
	return p
}

// price is the GPU time on one node since the newest checkpoint.
func (y *stoppable) price() float64 { return float64(y.loss) * y.gpus }

// mayStop returns the candidate of a running job, and whether the job may be preempted at all.
func (p *Order) mayStop(x Running) (*stoppable, bool) {
	j, rule := x.Job, &p.ranking.Policy.Preemption
	now := p.ranking.Now
	if !j.Preemptible || j.State != v1.JobState_RUNNING || j.Stop != v1.StopReason_UNSPECIFIED || j.Shape.FractionMilli > 0 ||
		now-j.StartedAt < rule.Protect || j.Retries.Preempted >= MostPreempted {
		return nil, false
	}
	y := &stoppable{job: j, gpus: float64(j.Shape.GPUs), loss: now - max(x.SavedAt, j.StartedAt), left: p.ranking.Remaining(j)}
	y.above = p.ranking.Of(j).Above
	y.saved = x.SavedAt >= j.StartedAt && y.loss <= rule.Every
	return y, y.left >= worthwhile*rule.RestartCost
}

// change changes the use of a node.
func (p *Order) change(h *holder, by func(use *work.NodeUse)) {
	use := *h.Use
	by(&use)
	h.Use = &use
	p.free -= h.free
	h.count()
	p.free += h.free
}

func (h *holder) count() {
	h.free = 0
	for i := range h.GPUs {
		bit := uint64(1) << h.GPUs[i].Index
		if h.GPUs[i].Health == v1.GpuHealth_HEALTHY && (h.Use.Exclusive|h.Use.Shared|h.Use.Claimed.GPUs)&bit == 0 {
			h.free++
		}
	}
}

// Place records that a job gets places.
func (p *Order) Place(j *work.Job, tasks []work.TaskPlacement) {
	for i := range tasks {
		if h := p.byName[tasks[i].Node]; h != nil {
			p.change(h, func(use *work.NodeUse) { use.Add(picture.LeaseOf(j, &tasks[i])) })
		}
	}
}

// release records that a victim leaves all its nodes.
func (p *Order) release(j *work.Job) {
	if p.gone[j.ID] {
		return
	}
	p.gone[j.ID] = true
	places := work.Placed(j.Tasks)
	for i := range places {
		if h := p.byName[places[i].Node]; h != nil {
			p.change(h, func(use *work.NodeUse) { use.Remove(picture.LeaseOf(j, &places[i])) })
		}
	}
}

// Decide returns the cheapest way to make room for a job; nil: none is worth its cost.
func (p *Order) Decide(j *work.Job, at order.Rank) *Decision {
	key := need{shape: j.Shape}
	if len(p.windows) > 0 {
		key.term, key.tenant = j.Term, j.Tenant
	}
	if best, ok := p.hopeless[key]; ok && at.Above >= best {
		return nil
	}
	needs := p.ranking.Remaining(j)
	r := p.rulesFor(j, at)
	var ways []way
	for _, h := range p.hosts {
		if p.keptFrom(j, h.ID) {
			continue
		}
		if w, ok := p.on(h, &r, j, at, needs); ok {
			ways = append(ways, w)
		}
	}
	chosen := cheapest(ways, &j.Shape)
	if chosen == nil {
		p.hopeless[key] = at.Above
		return nil
	}
	made := &Decision{For: work.Placement{Job: j.ID, Attempt: j.Attempt + 1}}
	for _, w := range chosen {
		for _, y := range w.victims {
			if !p.gone[y.job.ID] {
				made.Victims = append(made.Victims, y.job.ID)
				p.release(y.job)
			}
		}
		made.For.Tasks = append(made.For.Tasks, work.TaskPlacement{Node: w.host.ID, GPUs: w.gpus})
	}
	p.Place(j, made.For.Tasks)
	return made
}

// keptFrom reports whether a window keeps a node from a job.
func (p *Order) keptFrom(j *work.Job, node string) bool {
	return slices.ContainsFunc(p.windows, func(w *windows.Window) bool { return w.Has(node) && !w.Admits(j, p.ranking.Now) })
}

// rulesFor returns which jobs may be taken for a job. Those that lose the least are taken first.
func (p *Order) rulesFor(j *work.Job, at order.Rank) rules[*stoppable] {
	return rules[*stoppable]{
		may: func(y *stoppable) bool {
			return !p.gone[y.job.ID] && (at.Above < y.above || y.saved && len(y.job.Tasks) <= 1) && !p.protected(y.job, j) && !p.guarded(y.job, j)
		},
		price: (*stoppable).price,
		all:   true,
	}
}

// protected reports whether the policy protects a running job v from the higher priority of a job j.
func (p *Order) protected(v, j *work.Job) bool {
	return v.Priority < j.Priority && v.ProtectedUntil(p.ranking.Policy.Preemption.ProtectFromPriority) > p.ranking.Now
}

// on finds victims on one node, and returns false if they are not worth it.
func (p *Order) on(h *holder, r *rules[*stoppable], j *work.Job, at order.Rank, needs int64) (way, bool) {
	gpus, all, ok := r.clear(h.Node.Node, *h.Use, j.Shape, h.held)
	w := way{host: h, gpus: gpus}
	if !ok {
		return w, false
	}
	elsewhere, least, waiting, delay := p.free-h.free, math.Inf(1), 0.0, int64(0)
	nodes, rule := float64(max(1, int(j.Shape.Nodes))), &p.ranking.Policy.Preemption
	for _, t := range all {
		y := t.victim
		higher := at.Above < y.above
		w.cost += y.gpus * float64(y.loss+rule.RestartCost)
		switch {
		case !higher && int(y.job.Shape.GPUs) <= movable && elsewhere >= int(y.job.Shape.GPUs):
			elsewhere -= int(y.job.Shape.GPUs)
			delay += y.loss + rule.RestartCost
		case !higher:
			least = min(least, float64(y.left)*y.gpus)
			waiting += y.gpus
			fallthrough
		default:
			w.cost += y.gpus * float64(needs)
		}
		w.victims = append(w.victims, y)
	}
	if float64(needs)*waiting*nodes*float64(rule.Ratio) > least && waiting > 0 {
		return w, false
	}
	return w, float64(delay)*nodes <= float64(p.ranking.Waited(j))
}

// cheapest returns as many of the cheapest ways as the job needs; for a gang, on nodes with equal GPUs. nil: there are
// too few.
func cheapest(ways []way, s *work.Shape) []way {
	want := max(1, int(s.Nodes))
	slices.SortStableFunc(ways, func(a, b way) int { return cmp.Compare(a.cost, b.cost) })
	if want == 1 && len(ways) > 0 {
		return ways[:1]
	}
	alike := map[string][]way{}
	for _, w := range ways {
		key := picture.GangKind(s, w.host.Node.Node)
		if alike[key] = append(alike[key], w); len(alike[key]) == want {
			return alike[key]
		}
	}
	return nil
}

// keepReserved claims the reserved places, so that no preemption uses them.
func (p *Order) keepReserved(v NodesView) {
	for promise := range v.Promises() {
		for i := range promise.Tasks {
			if h := p.byName[promise.Tasks[i].Node]; h != nil {
				p.change(h, func(use *work.NodeUse) { use.Claim(promise.Of(i)) })
			}
		}
	}
}
