package lifecycle

import (
	"github.com/mindcoordinator/mind/fsm/work"
)

// recoverySettle is how much longer than a lease a task may live that runs on because its peers have no session (W and the
// stop in docs/operate/failure-model.md).
const recoverySettle = 8 * 1e9

// HoldForRecovery keeps a job that was there before the recovery from the scheduler, for as long as an attempt of it that
// this state has no record of may be alive.
func (tx *Tx) HoldForRecovery(j *work.Job) {
	until := tx.Meta.RecoveredAt + j.SilenceUntilLost() + recoverySettle
	if tx.Meta.Recovered == 0 || j.Created > tx.Meta.Recovered || tx.Now >= until && tx.AllHeard() {
		return
	}
	j.Held |= work.HoldRecovery
	j.SettlesAt = until
}
