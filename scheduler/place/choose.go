package place

import "github.com/mindcoordinator/mind/fsm/work"

// Choose picks want of the free GPUs of a node: those with the best links to each other. With nvlink, each of them must
// reach the others over NVLink. It returns false if there are none.
func Choose(n *work.Node, free uint64, want int, nvlink bool) (gpus uint64, ok bool) {
	return wire(n.GPUs).pick(free, want, nvlink)
}
