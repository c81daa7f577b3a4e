package nodeverbs

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
)

// SliceGate opens slices of GPUs. Older replicas would place jobs on them that ask for any GPU.
var SliceGate = level.NewGate(level.Released+1, "slices of GPUs (MIG)")

// Known returns the GPUs that a level knows: below that of SliceGate, slices are left out.
func Known(gpus []work.GPU, at level.Level) []work.GPU {
	slice := func(g work.GPU) bool { return g.MIG != "" || g.Instance != "" }
	if SliceGate.Check(at) == nil || !slices.ContainsFunc(gpus, slice) {
		return gpus
	}
	return slices.DeleteFunc(slices.Clone(gpus), slice)
}
