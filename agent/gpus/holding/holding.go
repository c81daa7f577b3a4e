// Package holding describes which GPUs of its node a task has, and decides whether two tasks can run at the same time.
// It is pure.
package holding

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Holding is the set of GPUs that a task has.
type Holding struct {
	GPUs []int32
	// Shared: the task has only a fraction of each GPU.
	Shared bool
	// Unknown: the task's record cannot be read, so it may have any GPU.
	Unknown bool
}

// Of returns the GPUs that a task will have.
func Of(spec *v1.TaskSpec) Holding {
	f := spec.GetGpuFraction()
	return Holding{GPUs: spec.GetGpus(), Shared: f > 0 && f < 1}
}

// Any reports whether the task has, or may have, GPUs.
func (h Holding) Any() bool { return h.Unknown || len(h.GPUs) > 0 }

// Excludes reports whether two tasks cannot run at the same time, because one has a whole GPU and the other has at
// least a part of the same GPU.
func (h Holding) Excludes(other Holding) bool {
	switch {
	case !h.Any() || !other.Any() || h.Shared && other.Shared:
		return false
	case h.Unknown || other.Unknown:
		return true
	}
	return slices.ContainsFunc(h.GPUs, func(gpu int32) bool { return slices.Contains(other.GPUs, gpu) })
}
