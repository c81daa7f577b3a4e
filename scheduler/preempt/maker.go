package preempt

import (
	"maps"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/scheduler/picture"
)

// maxPreemptions is the number of jobs that one round makes room for. The next pass sees the results.
const maxPreemptions = 16

// maker makes room for one job after the other. Its picture has the places that the earlier ones get.
type maker struct {
	view    View
	picture *picture.Picture
	victims map[ident.Job]*victim
	// rules say what may be taken. moves: what may be taken, and its price, depends on what was taken before.
	rules rulesFor
	moves bool
	// reserved are the places of reserved starts that are kept, by node.
	reserved map[string][]reservedPlace
	now      int64
	// reclaim: the jobs are within the guarantee of their queue.
	reclaim bool
	// made are the decisions so far, leaving are their victims, and most is the number of decisions with which the
	// round ends.
	made    []jobverbs.Preemption
	leaving map[ident.Job]bool
	most    int
	guards
}

// Choose chooses victims for the first jobs of blocked classes: first for those within the guarantee of their queue, as
// ForGuarantees does, because the places that they get are not left for others; then for those of higher priority, as
// ForPriority does. Like these it is pure, and the state checks its proposal.
func Choose(v View, blocked []work.ClassKey, now int64) []jobverbs.Preemption {
	m := newMaker(v, now)
	m.forGuarantees(blocked)
	m.forPriority(blocked)
	return m.made
}

func newMaker(v View, now int64) *maker {
	return &maker{view: v, picture: picture.Of(v), now: max(now, v.Now()), guards: guardsOf(v), leaving: map[ident.Job]bool{}}
}

// begin begins a round with other victims and rules.
func (m *maker) begin(victims map[ident.Job]*victim) {
	for id := range m.leaving { // order-free: deletes
		delete(victims, id)
	}
	m.victims, m.most = victims, len(m.made)+maxPreemptions
}

// full reports whether no more room can be made in this round.
func (m *maker) full() bool { return len(m.made) == m.most || len(m.victims) == 0 }

// served reports whether places are kept for a job, or whether it has got them in this pass.
func (m *maker) served(id ident.Job) bool {
	_, has := m.view.ClaimOf(id)
	return has || slices.ContainsFunc(m.made, func(p jobverbs.Preemption) bool { return p.Job == id })
}

// able reports whether a job may have places on a node at all.
func (m *maker) able(j *work.Job, n *work.Node) bool {
	if n.State != v1.NodeState_READY || j.Avoids(n.ID) {
		return false
	}
	for w := range m.view.WindowsOn(n.ID) {
		if !w.Admits(j, m.now) {
			return false
		}
	}
	return true
}

// use returns the resources of a node that a job cannot have: those in use and those that earlier jobs of the pass get,
// and the GPUs that are reserved for jobs which are at least as urgent while the job would run. CPUs and memory of
// reserved starts do not count, because the present jobs of the node hold most of them until then.
func (m *maker) use(j *work.Job, n *work.Node) work.NodeUse {
	use := *m.picture.Load(n).Use
	for _, place := range m.reserved[n.ID] {
		if place.Job != j.ID && place.job.Priority >= j.Priority && place.During(m.now, promises.EndOf(j, m.now)) {
			use.Claim(work.Claimed{GPUs: place.Tasks[place.rank].GPUs})
		}
	}
	return use
}

// decide keeps the places for a job. It returns false if there are no victims, if there are too many, or if a limit or a
// guarantee bars the job even when they have left.
func (m *maker) decide(j *work.Job, spots []*spot, leave map[ident.Job]bool) bool {
	if len(leave) == 0 || len(leave) > claims.MaxVictims {
		return false
	}
	var places []work.TaskPlacement
	for _, s := range spots {
		places = append(places, work.TaskPlacement{Node: s.node.ID, GPUs: s.gpus})
	}
	var victims []*work.Job
	made := jobverbs.Preemption{Job: j.ID, Attempt: j.Attempt + 1, Tasks: places, Reclaim: m.reclaim}
	for _, id := range slices.Sorted(maps.Keys(leave)) {
		v := m.victims[id].job
		victims = append(victims, v)
		made.Victims = append(made.Victims, jobverbs.Victim{Job: id, Attempt: v.Attempt})
	}
	if m.barred(j, places, victims) {
		return false
	}
	m.picture.Keep(j, places)
	for _, v := range victims {
		delete(m.victims, v.ID)
		m.leaving[v.ID] = true
		if m.moves {
			m.balance.Move(v, -1)
		}
	}
	m.made = append(m.made, made)
	return true
}

// barred reports whether the state would refuse a preemption: because a limit of the job's tenant, queue or array bars
// it even when its victims have left, because it takes guaranteed GPUs of another queue, or because the GPU hours are
// used up.
func (m *maker) barred(j *work.Job, places []work.TaskPlacement, victims []*work.Job) bool {
	if a, ok := m.view.Array(j.ID.Submitted()); ok && j.MaxParallel != 0 && a.Array.Rows.Live >= j.MaxParallel {
		return true
	}
	if m.balance != nil {
		if at, _ := m.balance.Protects(j, victims, m.reclaim); at != nil || m.returns(j, victims) {
			return true
		}
	}
	before := m.picture.Mark()
	defer m.picture.Undo(before)
	for _, v := range victims {
		m.picture.Remove(v, work.Placed(v.Tasks))
	}
	types := work.TypesOf(places, j.Shape, m.view.Node)
	if q, ok := m.view.Quota(j.Tenant); ok {
		if q.Bars(m.picture.Usage(j.Tenant), j.Shape) != "" || q.BarsHours(m.view.Budget(j.Tenant).SpentBy(m.view.Now()), m.view.Now(), j.Shape) != "" {
			return true
		}
		for _, t := range types {
			if q.BarsType(t.Type, m.picture.HeldOfType(j.Tenant, t.Type), t.Milli) != "" {
				return true
			}
		}
	}
	for q := range m.view.Lineage(j.Queue) {
		if q.Bars(m.picture.QueueTreeGPUs(q.Name), j.Shape) != "" {
			return true
		}
		for _, t := range types {
			if q.BarsType(t.Type, m.picture.QueueTreeOfType(q.Name, t.Type), t.Milli) != "" {
				return true
			}
		}
	}
	return false
}

// returns reports whether one of the victims would take its places back: with all of them gone it is within what its queue is
// guaranteed, and the job is not. They would preempt each other in turn.
func (m *maker) returns(j *work.Job, victims []*work.Job) bool {
	after := m.balance.Clone()
	for _, v := range victims {
		after.Move(v, -1)
	}
	after.Move(j, 1)
	return j.Preemptible && slices.ContainsFunc(victims, func(v *work.Job) bool {
		covering := after.Covering(v)
		return len(covering) > 0 && after.Borrows(j, v, covering, true)
	})
}
