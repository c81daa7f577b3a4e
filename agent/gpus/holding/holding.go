// Package holding says which GPUs of its node a task has, and which two tasks cannot run at the same time. It is pure.
package holding

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Holding is the set of GPUs that a task has.
type Holding struct {
	GPUs []int32
	// Shared: only a fraction of each.
	Shared bool
	// Unknown: the task's record cannot be read, so it may have any GPU.
	Unknown bool
}

// Of returns what a task will hold.
func Of(spec *v1.TaskSpec) Holding {
	f := spec.GetGpuFraction()
	return Holding{GPUs: spec.GetGpus(), Shared: f > 0 && f < 1}
}

// Any reports whether it may be any GPU.
func (h Holding) Any() bool { return h.Unknown || len(h.GPUs) > 0 }

// Excludes reports whether two tasks cannot run at the same time: one has a whole GPU of which the other has a part.
func (h Holding) Excludes(other Holding) bool {
	switch {
	case !h.Any() || !other.Any() || h.Shared && other.Shared:
		return false
	case h.Unknown || other.Unknown:
		return true
	}
	return slices.ContainsFunc(h.GPUs, func(gpu int32) bool { return slices.Contains(other.GPUs, gpu) })
}
