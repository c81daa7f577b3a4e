package lifecycle

import (
	"github.com/mindcoordinator/mind/fsm/work"
)

// SettleAwaits lets go of the tasks on a node that are known to be gone: all but those that still says are there.
func (tx *Tx) SettleAwaits(node string, still func(t work.TaskRef) bool) {
	for _, id := range tx.AwaitedOn(node) {
		old, _ := tx.Job(id)
		j := *old
		if j.SettleAwaits(func(a *work.AwaitedTask) bool {
			return a.Node != node || still(work.TaskRef{Job: id, Attempt: a.Attempt, Rank: a.Rank, Token: a.Token})
		}) {
			tx.EmitJob(&j, j.State)
			tx.SaveJob(old, &j)
		}
	}
}
