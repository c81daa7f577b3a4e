package apply

import (
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
)

// meter notes that a tenant begins to hold the GPUs that a job has got, or has given them back.
func (tx *tx) meter(j *work.Job, granted bool) {
	if j.Shape.GPUMilli() > 0 {
		budgets.Touch(&tx.Meter, j.Tenant, granted)
	}
}

// endMonths begins the next month for those of whom the last one is over, and forgets those who hold nothing. Who waited for
// hours is looked at again.
func (tx *tx) endMonths(res *work.TickResult) {
	for range maxPerTick {
		old := tx.Over(tx.now)
		if old == nil {
			return
		}
		if q, ok := tx.Quota(old.Tenant); ok && q.MaxGPUHours != nil {
			tx.emit(event.Event{Topic: event.TopicQuota, Tenant: old.Tenant, Name: old.Tenant})
		}
		if old.Holds == 0 {
			budgets.Drop(&tx.Meter, old)
			continue
		}
		b := *old
		b.Settle(tx.now)
		budgets.Put(&tx.Meter, &b)
	}
	res.More = true
}
