package whatif

import (
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Tells says whether the answer to another number of GPUs would tell how much of a queue's limit other tenants hold, and of
// which queue. Whether the limit bars the job as it is, is known to its tenant: so is that more GPUs are barred when it is,
// and that fewer are not when it is not. Where between the two the limit is reached depends on the others.
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

// othersHold says whether another tenant holds GPUs of a queue or of its parts.
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
