package lifecycle

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/overdraft"
)

// WarnForHours warns the running jobs of a tenant that they will be stopped because its GPU hours are used up.
func (tx *Tx) WarnForHours(tenant string) {
	b := *tx.Budget(tenant)
	b.Settle(tx.Now)
	b.Warned = b.At
	budgets.Put(&tx.Meter, &b)
	tx.tellOfHours(tenant)
}

// StopForHours asks the running jobs of a tenant that have no time limit to stop, most of them at most: those that may be preempted
// wait for the next month, and the others end. It returns how many it asked.
func (tx *Tx) StopForHours(tenant string, most int) (asked int) {
	b := *tx.Budget(tenant)
	b.Settle(tx.Now)
	quota, _ := tx.Quota(tenant)
	why := reason.New(reason.StoppedForHours, int64(b.Used/budgets.Hour), *quota.MaxGPUHours)
	for _, old := range slices.Collect(overdraft.Jobs(tx.State, tenant)) {
		if old.Stop != v1.StopReason_UNSPECIFIED || old.Ending != nil {
			continue
		}
		if asked == most {
			return asked // The next Tick asks the rest.
		}
		j, stop := *old, v1.StopReason_TIME_LIMIT
		if j.Preemptible && !j.Retry.Never {
			stop = v1.StopReason_PREEMPT
		}
		tx.AskToStop(&j, stop, j.Grace, why)
		tx.SaveJob(old, &j)
		asked++
	}
	b.Stopped = b.At
	budgets.Put(&tx.Meter, &b)
	return asked
}

// ReopenHours takes the warning back for a tenant whose quota was changed, or a job of which has no time limit any more: its jobs are warned
// again before they are stopped, if the hours are still used up.
func (tx *Tx) ReopenHours(tenant string) {
	old := tx.Budget(tenant)
	if old == nil || old.Warned == 0 {
		return
	}
	b := *old
	b.Warned, b.Stopped = 0, 0
	budgets.Put(&tx.Meter, &b)
	tx.tellOfHours(tenant)
}

// tellOfHours tells watchers of the jobs of which it has changed when they are stopped.
func (tx *Tx) tellOfHours(tenant string) {
	for j := range overdraft.Jobs(tx.State, tenant) {
		tx.EmitJob(j, j.State)
	}
}
