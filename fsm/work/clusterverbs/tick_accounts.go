package clusterverbs

import (
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// dropFaded forgets the accounts of which hardly anything is left.
func dropFaded(tx *lifecycle.Tx, res *TickResult) {
	for range maxPerTick {
		a := tx.FadedAccount(tx.Now)
		if a == nil {
			return
		}
		accounts.Drop(&tx.Bank, a)
	}
	res.More = true
}

// endMonths begins the next month for those of whom the last one is over, and forgets those who hold nothing. Jobs that
// waited for hours are looked at again.
func endMonths(tx *lifecycle.Tx, res *TickResult) {
	for range maxPerTick {
		old := tx.Over(tx.Now)
		if old == nil {
			return
		}
		if q, ok := tx.Quota(old.Tenant); ok && q.MaxGPUHours != nil {
			tx.Emit(event.Event{Topic: event.TopicQuota, Tenant: old.Tenant, Name: old.Tenant})
		}
		if old.Holds == 0 {
			budgets.Drop(&tx.Meter, old)
			continue
		}
		b := *old
		b.Settle(tx.Now)
		budgets.Put(&tx.Meter, &b)
	}
	res.More = true
}
