package launch

import (
	"context"

	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// resumeFrom picks the checkpoint that a task goes on from: the first, of those that the coordinators know, that is here and
// is what it was when it was registered. "" means from the start. Coordinators that name no points are believed.
func (l *Launcher) resumeFrom(id taskid.ID, spec *v1.TaskSpec) string {
	points := spec.GetResumePoints()
	if len(points) == 0 {
		return spec.GetResumeFrom()
	}
	log := l.Log.With("job", id.Job, "attempt", id.Attempt, "rank", id.Rank)
	for i, point := range points {
		err := observe.Verify(context.Background(), point)
		if err == nil {
			log.Info("going on from a checkpoint", "path", point.GetPath(), "step", point.GetStep(), "passed_over", i)
			return point.GetPath()
		}
		log.Warn("not going on from a checkpoint", "path", point.GetPath(), "step", point.GetStep(), "registered_by", point.GetNodeId(), "why", err)
	}
	log.Warn("none of the checkpoints can be used: starting from the beginning", "checkpoints", len(points))
	return ""
}
