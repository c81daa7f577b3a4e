// Package holding says what a task has of the GPUs of its node, and which two tasks cannot be alive at once. It is pure.
package holding

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Holding is what a task has of the GPUs of the node.
type Holding struct {
	GPUs []int32
	// Shared: only a part of each.
	Shared bool
	// Unknown: the task's record cannot be read; it may have any.
	Unknown bool
}

// Of is what a task is to have.
func Of(spec *v1.TaskSpec) Holding {
	f := spec.GetGpuFraction()
	return Holding{GPUs: spec.GetGpus(), Shared: f > 0 && f < 1}
}

// Any reports whether it may be any GPU at all.
func (h Holding) Any() bool { return h.Unknown || len(h.GPUs) > 0 }

// Excludes tells whether two tasks cannot be alive at once: one has a whole GPU that the other has something of.
func (h Holding) Excludes(other Holding) bool {
	switch {
	case !h.Any() || !other.Any() || h.Shared && other.Shared:
		return false
	case h.Unknown || other.Unknown:
		return true
	}
	return slices.ContainsFunc(h.GPUs, func(gpu int32) bool { return slices.Contains(other.GPUs, gpu) })
}
