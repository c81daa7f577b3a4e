package apply

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/guarantee"
)

// balance is what the queues hold, as guarantees count it: GPUs that are kept for a job count as held by it, and those of jobs
// that leave for one do not.
func (tx *tx) balance() *guarantee.Balance {
	return guarantee.New(tx.State, tx.GPUsIn, tx.Claims(), tx.Job)
}

// mayTake says why a preemption would take what another queue is guaranteed, or reclaims more than its own; nil: neither.
func (tx *tx) mayTake(j *work.Job, p *claims.Preemption, victims []ident.Job) *kernel.Refusal {
	b := tx.balance()
	if p.Reclaim && len(b.Covering(j)) == 0 {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NotGuaranteed, j.ID)
	}
	var leave []*work.Job
	for _, id := range victims {
		at, _ := tx.Job(id)
		leave = append(leave, at)
	}
	if at, queue := b.Protects(j, leave, p.Reclaim); at != nil {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.VictimGuaranteed, at.ID, queue)
	}
	return nil
}

// guaranteeOf is the queue whose guarantee a job is within.
func (tx *tx) guaranteeOf(j *work.Job) string {
	for _, q := range tx.balance().Covering(j) {
		return q
	}
	return j.Queue
}

// admitGuarantee says why a queue cannot be guaranteed what it asks for, beside the others; nil: it can.
func (tx *tx) admitGuarantee(q *work.Queue) *kernel.Refusal {
	below, beside, any := uint64(0), uint64(q.Guaranteed), q.Guaranteed != 0
	for other := range tx.Queues() {
		any = any || other.Guaranteed != 0
		switch {
		case other.Name == q.Name:
		case other.Parent == q.Name:
			below += uint64(other.Guaranteed)
		case q.Parent != "" && other.Parent == q.Parent:
			beside += uint64(other.Guaranteed)
		}
	}
	if !any {
		return nil
	}
	if below > uint64(q.Guaranteed) {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.GuaranteeTooLarge, q.Name, int64(below), q.Guaranteed)
	}
	if q.Parent == "" {
		return nil
	}
	if above, ok := tx.Queue(q.Parent); ok && q.Guaranteed > 0 && beside > uint64(above.Guaranteed) {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.GuaranteeTooLarge, above.Name, int64(beside), above.Guaranteed)
	}
	return nil
}

// overTypes says why the places of a job would be more of a type of GPU than a limit allows, even when some jobs have left;
// empty: they would not.
func (tx *tx) overTypes(j *work.Job, places []work.TaskPlacement, gone []ident.Job) reason.Reason {
	quota, limited := tx.Quota(j.Tenant)
	limited = limited && len(quota.MaxByType) > 0
	for q := range tx.Lineage(j.Queue) {
		limited = limited || len(q.MaxByType) > 0
	}
	if !limited || !j.Shape.NeedsGPU() {
		return ""
	}
	if quota == nil {
		quota = &work.Quota{}
	}
	need := work.TypesOf(places, j.Shape, tx.Node)
	for _, n := range need {
		left, own := map[string]int{}, 0
		for _, id := range gone {
			v, _ := tx.Job(id)
			for _, was := range work.TypesOf(work.Placed(v.Tasks), v.Shape, tx.Node) {
				if was.Type != n.Type {
					continue
				}
				for q := range tx.Lineage(v.Queue) {
					left[q.Name] += was.Milli
				}
				if v.Tenant == j.Tenant {
					own += was.Milli
				}
			}
		}
		for q := range tx.Lineage(j.Queue) {
			if why := q.BarsType(n.Type, tx.QueueTreeOfType(q.Name, n.Type)-left[q.Name], n.Milli); why != "" {
				return why
			}
		}
		if why := quota.BarsType(n.Type, tx.HeldOfType(j.Tenant, n.Type)-own, n.Milli); why != "" {
			return why
		}
	}
	return ""
}
