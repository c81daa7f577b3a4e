package launch

import (
	"github.com/mindcoordinator/mind/agent/inputs"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// resumeFrom is the checkpoint that a task resumes from; "" means from the start. If the coordinators send no resume points,
// their choice is used; otherwise it was looked for with the task's data.
func resumeFrom(dir string, spec *v1.TaskSpec, data *inputs.Data) string {
	if path, decided := data.ResumeFrom(dir); decided {
		return path
	}
	return spec.GetResumeFrom()
}
