package launch

import (
	"context"

	"github.com/mindcoordinator/mind/agent/inputs"
	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// resumeFrom picks the checkpoint that a task resumes from: the first one known to the coordinators that this node has,
// unchanged since its registration. "" means from the start. If the coordinators send no resume points, their choice is
// used. What was found with the task's data counts before all that.
func (l *Launcher) resumeFrom(id taskid.ID, dir string, spec *v1.TaskSpec, data *inputs.Data) string {
	if path, decided := data.ResumeFrom(dir); decided {
		return path
	}
	points := spec.GetResumePoints()
	if len(points) == 0 {
		return spec.GetResumeFrom()
	}
	log := l.Log.With("job", id.Job, "attempt", id.Attempt, "rank", id.Rank)
	for i, point := range points {
		err := observe.Verify(context.Background(), point)
		if err == nil {
			log.Info("resuming from a checkpoint", "path", point.GetPath(), "step", point.GetStep(), "passed_over", i)
			return point.GetPath()
		}
		log.Warn("cannot resume from a checkpoint", "path", point.GetPath(), "step", point.GetStep(), "registered_by", point.GetNodeId(), "why", err)
	}
	log.Warn("no checkpoint can be used: starting from the beginning", "checkpoints", len(points))
	return ""
}
