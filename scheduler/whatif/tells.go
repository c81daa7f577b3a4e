package whatif

import (
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Tells reports whether the answer for another number of GPUs would reveal how much of a queue's limit other tenants
// hold, and for which queue. The tenant knows whether the limit bars the unchanged job. If it does, it bars more GPUs
// too; if it does not, it does not bar fewer. Other answers depend on the other tenants' jobs.
func Tells(v *fsm.View, j *work.Job, c *Change) (queue string, tells bool) {
	w, err := with(v, j, c, 0)
	if err != nil {
		return "", false
	}
	asked, has := w.job.Shape.GPUMilli(), j.Shape.GPUMilli()
	if asked == 0 || asked == has {
		return "", false
	}
	for q := range w.Lineage(w.job.Queue) {
		if q.MaxGPUs == 0 || q.Bars(0, w.job.Shape) != "" || !othersHold(v, j.Tenant, q.Name) {
			continue
		}
		if barred := q.Bars(w.QueueTreeGPUs(q.Name), j.Shape) != ""; barred == (asked < has) {
			return q.Name, true
		}
	}
	return "", false
}

// othersHold reports whether another tenant holds GPUs in a queue or in one below it.
func othersHold(v *fsm.View, tenant, queue string) bool {
	for a := range v.Accounts() {
		if a.Tenant == tenant || a.Holds.GPUMilli == 0 {
			continue
		}
		for q := range v.Lineage(a.Queue) {
			if q.Name == queue {
				return true
			}
		}
	}
	return false
}
