package apply

import (
	"github.com/mindcoordinator/mind/fsm/work"
)

// openAccounts begins the accounts, with the first command at a level that has them. From then on they are kept whatever the
// level of an entry: an account that misses a grant is wrong for ever.
func (tx *tx) openAccounts() {
	if tx.meta.Accounting != 0 {
		return
	}
	tx.OpenAccounts(tx.now)
	tx.meta.Accounting = tx.index
	tx.meta.Touch()
}

// charge charges what a job holds from now on, discharge ends that.
func (tx *tx) charge(j *work.Job) {
	tx.meter(j, true)
	if tx.meta.Accounting != 0 {
		tx.Charge(j, tx.now)
	}
}

func (tx *tx) discharge(j *work.Job) {
	tx.meter(j, false)
	if tx.meta.Accounting != 0 {
		tx.Discharge(j, tx.now)
	}
}

// dropFaded forgets the accounts of which hardly anything is left.
func (tx *tx) dropFaded(res *work.TickResult) {
	for range maxPerTick {
		a := tx.FadedAccount(tx.now)
		if a == nil {
			return
		}
		tx.DropAccount(a)
	}
	res.More = true
}
