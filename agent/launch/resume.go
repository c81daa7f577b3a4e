package launch

import (
	"github.com/mindcoordinator/mind/agent/inputs"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// resumeFrom returns the checkpoint that a task resumes from, or "" for the start. If the coordinators send no resume
// points, their choice is used; otherwise inputs.Fetch has chosen it.
func resumeFrom(dir string, spec *v1.TaskSpec, data *inputs.Data) string {
	if path, decided := data.ResumeFrom(dir); decided {
		return path
	}
	return spec.GetResumeFrom()
}
