package lifecycle

import (
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
)

// BeginAccounts begins the accounts, with the first command at a level that has them. From then on they are kept whatever the
// level of an entry: an account that misses a grant is wrong for ever.
func (tx *Tx) BeginAccounts() {
	if tx.Meta.Accounting != 0 {
		return
	}
	tx.OpenAccounts(tx.Now)
	tx.Meta.Accounting = tx.Index
	tx.Meta.Touch()
}

// charge charges what a job holds from now on, discharge ends that.
func (tx *Tx) charge(j *work.Job) {
	tx.meter(j, true)
	if tx.Meta.Accounting != 0 {
		tx.Charge(j, tx.Now)
	}
}

func (tx *Tx) discharge(j *work.Job) {
	tx.meter(j, false)
	if tx.Meta.Accounting != 0 {
		tx.Discharge(j, tx.Now)
	}
}

// meter notes that a tenant begins to hold the GPUs that a job has got, or has given them back.
func (tx *Tx) meter(j *work.Job, granted bool) {
	if j.Shape.GPUMilli() > 0 {
		budgets.Touch(&tx.Meter, j.Tenant, granted)
	}
}
