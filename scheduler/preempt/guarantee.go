package preempt

import (
	"cmp"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/guarantee"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/scheduler/order"
)

// guards protect the guaranteed GPUs of queues from the jobs of other queues.
type guards struct {
	// balance is nil if no queue has a guarantee.
	balance *guarantee.Balance
}

func guardsOf(v NodesView) guards {
	p, ok := v.(View)
	if !ok {
		return guards{}
	}
	for q := range p.Queues() {
		if q.Guaranteed > 0 {
			return guards{guarantee.New(p, p.QueueTreeGPUs, p.Claims(), p.Job)}
		}
	}
	return guards{}
}

// guarded reports whether the GPUs of a running job v must not be taken for a job j.
func (g *guards) guarded(v, j *work.Job) bool {
	return g.balance != nil && !g.balance.Borrows(v, j, nil, false)
}

// ForGuarantees chooses victims for the first jobs of blocked classes that are within the guarantee of their queue.
// Victims are preemptible jobs of queues that hold more than their guarantee, whatever their priority and however short
// they have run. The most saturated queue gives back first; of its jobs, those of the lowest priority; and of these, those
// that lose the least. No job is taken that is not needed.
//
// Like [ForPriority], ForGuarantees is pure, and the state checks its proposal.
func ForGuarantees(v View, blocked []work.ClassKey, now int64) []jobverbs.Preemption {
	m := newMaker(v, now)
	m.forGuarantees(blocked)
	return m.made
}

func (m *maker) forGuarantees(blocked []work.ClassKey) {
	if m.balance == nil {
		return
	}
	heads := m.due(blocked)
	if len(heads) == 0 {
		return
	}
	m.begin(borrowers(m.view, m.now))
	m.reclaim, m.moves, m.reserved = true, true, nil
	m.rules = func(j *work.Job, balance *guarantee.Balance) rules[*victim] {
		covering := m.balance.Covering(j)
		return rules[*victim]{
			may:   func(x *victim) bool { return balance.Borrows(x.job, j, covering, true) },
			price: func(x *victim) float64 { return priceOf(x, j, balance) },
			took:  func(x *victim) { balance.Move(x.job, -1) },
		}
	}
	for _, j := range heads {
		if m.full() {
			break
		}
		if len(m.balance.Covering(j)) > 0 && m.makeRoom(j) {
			m.balance.Move(j, 1)
		}
	}
}

// due returns the first jobs of blocked classes that are within a guarantee, those of the least saturated queues first.
func (m *maker) due(blocked []work.ClassKey) []*work.Job {
	type head struct {
		job   *work.Job
		holds float64
	}
	var heads []head
	for _, key := range blocked {
		if key.Shape.GPUMilli() == 0 || len(m.balance.Covering(&work.Job{Queue: key.Queue, Shape: key.Shape})) == 0 {
			continue
		}
		var first *work.Job
		for lane := range m.view.Lanes(key) {
			for j := range m.view.LaneJobs(lane) {
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
		if !m.served(first.ID) {
			heads = append(heads, head{first, m.balance.Saturation(first, &work.Job{})})
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

const (
	// bySaturation and byPriority weigh the price of a victim: the saturation of its queue counts more than its
	// priority, and its priority more than the loss in GPU-nanoseconds.
	bySaturation = 1e21
	byPriority   = 1e17
)

// priceOf returns the price of a victim; higher for less saturated queues.
func priceOf(v *victim, j *work.Job, balance *guarantee.Balance) float64 {
	gpus := float64(v.job.Shape.GPUMilli()) / 1000
	return gpus*(bySaturation/(1+balance.Saturation(v.job, j))+byPriority*float64(v.job.Priority)) + v.cost
}
