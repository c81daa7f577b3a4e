package place

import "github.com/mindcoordinator/mind/fsm/work"

// Choose picks some of the free GPUs of a node: those with the best links to each other, and with nvlink only such that all
// reach each other over NVLink. false: there are none.
func Choose(n *work.Node, free uint64, want int, nvlink bool) (gpus uint64, ok bool) {
	return wire(n.GPUs).pick(free, want, nvlink)
}
