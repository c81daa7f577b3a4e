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
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/guarantee"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/order"
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

// ForPriority chooses victims for the first jobs of blocked classes. Victims are preemptible jobs of lower priority whose
// attempts have run for longer than the policy protects them from a higher priority. It takes those that lose the least: the GPU-seconds
// since their last checkpoint, and those of a restart. No job is taken that is not needed.
//
// A job whose last attempt may still be alive gets no places this way. Only the leader knows where it may run, and the
// state grants the places without the leader (rule R3).
//
// now is in Unix nanoseconds. It is pure, and the state checks its proposal.
func ForPriority(v View, blocked []work.ClassKey, now int64) []jobverbs.Preemption {
	m := newMaker(v, now)
	m.forPriority(blocked)
	return m.made
}

func (m *maker) forPriority(blocked []work.ClassKey) {
	v := m.view
	if m.begin(candidates(v, m.now)); len(m.victims) == 0 {
		return
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
	m.reclaim, m.moves, m.reserved = false, false, reservedOn(v)
	m.rules = func(j *work.Job, _ *guarantee.Balance) rules[*victim] {
		return rules[*victim]{
			may:   func(x *victim) bool { return x.job.Priority < j.Priority && !m.guarded(x.job, j) },
			price: func(x *victim) float64 { return x.cost },
		}
	}
	for _, j := range heads {
		if m.full() {
			break
		}
		if !m.served(j.ID) && !j.Replacement() && j.Priority > m.least() {
			m.makeRoom(j)
		}
	}
}

// candidates returns the jobs that may be preempted.
func candidates(v View, now int64) map[ident.Job]*victim {
	policy := v.Policy()
	found := map[ident.Job]*victim{}
	for j := range v.ActiveJobs() {
		if !j.Preemptible || j.Retry.Never || j.Stop != v1.StopReason_UNSPECIFIED || j.Ending != nil || j.ProtectedUntil(policy.Preemption.ProtectFromPriority) > now {
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

// least returns the lowest priority of the remaining victims.
func (m *maker) least() uint8 {
	least := uint8(255)
	for _, v := range m.victims {
		least = min(least, v.job.Priority)
	}
	return least
}
