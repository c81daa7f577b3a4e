package agent

import (
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// holding is what a task has of the GPUs of the node.
type holding struct {
	gpus []int32
	// shared: only a part of each.
	shared bool
	// unknown: the task's record cannot be read; it may have any.
	unknown bool
}

func holdingOf(spec *v1.TaskSpec) holding {
	f := spec.GetGpuFraction()
	return holding{gpus: spec.GetGpus(), shared: f > 0 && f < 1}
}

// holdingOfRecord reads what a task was launched with.
func (a *agent) holdingOfRecord(spec shim.Spec, err error) holding {
	indices, ok := a.gpus.indices(envOfSpec(spec, "CUDA_VISIBLE_DEVICES"))
	if err != nil || !ok {
		return holding{unknown: true}
	}
	return holding{gpus: indices, shared: envOfSpec(spec, "MIND_GPU_FRACTION") != ""}
}

func envOfSpec(spec shim.Spec, name string) string {
	for _, entry := range spec.Env {
		if n, value, _ := strings.Cut(entry, "="); n == name {
			return value
		}
	}
	return ""
}

func (h holding) any() bool { return h.unknown || len(h.gpus) > 0 }

// excludes tells whether two tasks cannot be alive at once: one has a whole GPU that the other has something of.
func (h holding) excludes(other holding) bool {
	switch {
	case !h.any() || !other.any() || h.shared && other.shared:
		return false
	case h.unknown || other.unknown:
		return true
	}
	return slices.ContainsFunc(h.gpus, func(gpu int32) bool { return slices.Contains(other.gpus, gpu) })
}

// blocker returns a task that must end before t may be launched: whatever the coordinators believe, it still has one of
// its GPUs. Tasks that are stopped, or not wanted any more, count until no process of them is left.
func (a *agent) blocker(t *task) *task {
	if !t.has.any() {
		return nil
	}
	for _, other := range a.holders {
		if other != t && t.has.excludes(other.has) {
			return other
		}
	}
	return nil
}

// hold notes that a task has, or may have, processes on its GPUs.
func (a *agent) hold(t *task) {
	if t.has.any() && !slices.Contains(a.holders, t) {
		a.holders = append(a.holders, t)
	}
}

// letGo notes that it has none.
func (a *agent) letGo(t *task) {
	a.holders = slices.DeleteFunc(a.holders, func(other *task) bool { return other == t })
}
