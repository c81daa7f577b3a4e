package launch

import (
	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Fence makes the control group of a task, with a filter that lets it open the GPUs of its lease alone. An error is a fault of the
// node.
func (l *Launcher) Fence(s shim.Spec, spec *v1.TaskSpec) error {
	if s.Refusal != "" || l.Places == nil {
		return nil
	}
	return l.Isolation.Fence(s.Cgroup, l.Places(spec.GetGpus()))
}
