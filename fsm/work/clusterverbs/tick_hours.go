package clusterverbs

import (
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/overdraft"
	"github.com/mindcoordinator/mind/fsm/work/policy"
)

// enforceHours warns the running jobs of tenants whose GPU hours are used up, and stops those that have exceeded them for too long.
func enforceHours(tx *lifecycle.Tx, res *TickResult) {
	if !tx.Entry.Open(policy.HoursGate) {
		return
	}
	for _, due := range overdraft.Until(tx.State, tx.Now) {
		if due.Step == overdraft.Warn {
			tx.WarnForHours(due.Tenant)
			continue
		}
		res.OutOfHours += tx.StopForHours(due.Tenant, maxPerTick-res.OutOfHours)
		if res.OutOfHours == maxPerTick {
			res.More = true
			return
		}
	}
}
