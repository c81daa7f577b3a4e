package lifecycle

import (
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Kept says why a window keeps a node from a job; nil: none does.
func (tx *Tx) Kept(j *work.Job, node string) *kernel.Refusal {
	for w := range tx.WindowsOn(node) {
		if !w.Admits(j, tx.Now) {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NodeKept, node, w.Name)
		}
	}
	return nil
}
