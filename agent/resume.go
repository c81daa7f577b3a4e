package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// resumeFrom picks the checkpoint that a task goes on from: the first, of those that the coordinators know, that is here and
// is what it was when it was registered. "" means from the start. Coordinators that name no points are believed.
func (a *agent) resumeFrom(k key, spec *v1.TaskSpec) string {
	points := spec.GetResumePoints()
	if len(points) == 0 {
		return spec.GetResumeFrom()
	}
	log := a.log.With("job", k.job, "attempt", k.attempt, "rank", k.rank)
	for i, point := range points {
		err := verifyCheckpoint(point)
		if err == nil {
			log.Info("going on from a checkpoint", "path", point.GetPath(), "step", point.GetStep(), "passed_over", i)
			return point.GetPath()
		}
		log.Warn("not going on from a checkpoint", "path", point.GetPath(), "step", point.GetStep(), "registered_by", point.GetNodeId(), "why", err)
	}
	log.Warn("none of the checkpoints can be used: starting from the beginning", "checkpoints", len(points))
	return ""
}

// verifyCheckpoint compares a checkpoint with what was registered.
func verifyCheckpoint(point *v1.ResumePoint) error {
	left := maxLookEntries
	m, err := manifestAt(context.Background(), point.GetPath(), &left)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("it is not here: this node may not share the file system that it is on, or it was removed")
	case err != nil:
		return fmt.Errorf("it cannot be read: %w", err)
	case m.size == 0 && m.former == "":
		return errors.New("it is empty")
	case point.GetManifestDigest() != "" && m.digest != point.GetManifestDigest() && m.former != point.GetManifestDigest():
		return errors.New("it has changed since it was registered: it may be half written")
	}
	return nil
}
