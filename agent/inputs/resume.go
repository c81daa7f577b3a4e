package inputs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/mindcoordinator/mind/agent/datacache"
	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// resumeDir is the folder of a task directory with the fetched checkpoint to resume from, under its own name: some programs
// read the step from it.
const resumeDir = "resume"

// resume is where a task resumes.
type resume struct {
	path  string          // of a checkpoint on the node; "" and no found: from the start
	name  string          // of the fetched checkpoint
	found *datacache.Data // nil: it is on the node
}

// needsResume reports whether a checkpoint may have to be fetched.
func (in *Inputs) needsResume(spec *v1.TaskSpec) bool {
	return in.cfg.Archive != nil && slices.ContainsFunc(spec.GetResumePoints(), archived)
}

func archived(p *v1.ResumePoint) bool { return p.GetArchiveKey() != "" }

// fetchResume finds the checkpoint that a task resumes from, and fetches it if it is not on the node: the first one that the
// node or the archive has, unchanged since its registration. An older one that is here never counts before a newer one that
// is there. nil: nothing needs to be fetched, so the launcher decides.
func (in *Inputs) fetchResume(ctx context.Context, id taskid.ID, spec *v1.TaskSpec, fetch func(datacache.Request) (*datacache.Data, error)) (*resume, error) {
	if !in.needsResume(spec) {
		return nil, nil
	}
	log := in.log.With("job", id.Job, "attempt", id.Attempt, "rank", id.Rank)
	for i, point := range spec.GetResumePoints() {
		log := log.With("path", point.GetPath(), "checkpoint", point.GetCheckpointId(), "step", point.GetStep(), "passed_over", i)
		err := observe.Verify(ctx, point)
		switch {
		case ctx.Err() != nil:
			return nil, errors.New("stopped while its checkpoint was being looked for")
		case err == nil:
			log.Info("resuming from a checkpoint")
			return &resume{path: point.GetPath()}, nil
		case !archived(point):
			log.Warn("cannot resume from a checkpoint", "why", err, "registered_by", point.GetNodeId())
			continue
		}
		found, err := fetch(checkpointRequest(point))
		switch {
		case err == nil:
			log.Info("resuming from a checkpoint of the archive")
			return &resume{name: baseOf(point.GetPath()), found: found}, nil
		case !datacache.Missing(err):
			return nil, fmt.Errorf("the checkpoint to resume from: %w", err)
		}
		log.Warn("cannot resume from a checkpoint", "why", err)
	}
	log.Warn("no checkpoint can be used: starting from the beginning", "checkpoints", len(spec.GetResumePoints()))
	return &resume{}, nil
}

func checkpointRequest(p *v1.ResumePoint) datacache.Request {
	return datacache.Request{
		Path: "mind://" + p.GetCheckpointId(), What: "checkpoint",
		Checkpoint: &datacache.Checkpoint{Key: p.GetArchiveKey(), Digest: p.GetContentDigest()},
	}
}

// baseOf is the last name of a path.
func baseOf(path string) string {
	if name := filepath.Base(path); filepath.IsLocal(name) && name != "." {
		return name
	}
	return "checkpoint"
}

// ResumeFrom is the checkpoint that a task resumes from, "" for none; decided: Fetch has found it. dir is the task's directory.
func (d *Data) ResumeFrom(dir string) (path string, decided bool) {
	switch {
	case d == nil || d.resume == nil:
		return "", false
	case d.resume.found != nil:
		return filepath.Join(dir, resumeDir, d.resume.name), true
	}
	return d.resume.path, true
}

// OnlyResume reports whether a task has neither sources nor a model to lay out.
func (d *Data) OnlyResume() bool { return d.onlyResume }

// WriteResume lays out a fetched checkpoint in a task directory.
func (d *Data) WriteResume(dir string) error {
	if d == nil || d.resume == nil || d.resume.found == nil {
		return nil
	}
	at := filepath.Join(dir, resumeDir)
	err := cmp.Or(os.RemoveAll(at), os.Mkdir(at, 0o755))
	if err == nil {
		err = os.Symlink(d.resume.found.Dir, filepath.Join(at, d.resume.name))
	}
	if err != nil {
		return fmt.Errorf("lay out the checkpoint to resume from: %w", err)
	}
	return nil
}
