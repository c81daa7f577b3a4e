package picture

import (
	"math/bits"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/hardware"
)

// Choose picks the GPUs for a task on a node of which the given part is in use. It returns false if the task does not
// fit.
func Choose(n *work.Node, use *work.NodeUse, s work.Shape) (uint64, bool) {
	want := int(s.GPUs)
	if s.FractionMilli > 0 {
		want = 1
	}
	gpus := uint64(0)
	if want > 0 {
		free := work.Eligible(n, use, s)
		if bits.OnesCount64(free) < want {
			return 0, false
		}
		picked, ok := hardware.Choose(n, free, want, s.Topology == work.TopologyNVLink)
		if !ok {
			return 0, false
		}
		gpus = picked
	}
	return gpus, work.CheckTask(n, use, s, gpus) == nil
}

// Fits picks the GPUs for a task on a node. It returns false if the task does not fit.
func (n *Node) Fits(s work.Shape) (gpus uint64, ok bool) { return Choose(n.Node, n.Use, s) }

// Enabled returns a node as it is when its drain is over.
func Enabled(n *work.Node) *work.Node {
	enabled := *n
	enabled.Drain = nil
	if n.State == v1.NodeState_DRAINING || n.State == v1.NodeState_DRAINED {
		if enabled.State = v1.NodeState_READY; n.Unfit != "" {
			enabled.State = v1.NodeState_UNFIT
		}
	}
	return &enabled
}
