package inputs

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mindcoordinator/mind/agent/datacache"
	"github.com/mindcoordinator/mind/agent/datacache/sources"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// resumeDir is the folder of a task directory for the fetched checkpoint to resume from. The checkpoint keeps its own
// name: some programs read the step from it.
const resumeDir = "resume"

// resume describes where a task resumes.
type resume struct {
	path  string          // of a checkpoint on the node; "" and no found: from the start
	name  string          // of the fetched checkpoint
	found *datacache.Data // nil: it is on the node
	from  string          // where it was, for the log
}

// Peers reaches the agents of other nodes.
type Peers interface {
	// Checkpoint returns a checkpoint on the node that registered it.
	Checkpoint(point *v1.ResumePoint) *sources.Remote
	// Agree asks the agent of rank 0 about an agreement.
	Agree(ctx context.Context, with *v1.TaskPeer, req *v1.AgreeOnResumeRequest) (*v1.AgreeOnResumeResponse, error)
}

// needsResume reports whether a task has checkpoints to resume from, or has to tell the other tasks of its attempt that there
// are none.
func (in *Inputs) needsResume(id taskid.ID, spec *v1.TaskSpec) bool {
	return len(spec.GetResumePoints()) > 0 || id.Rank == 0 && id.Attempt > 1 && in.agrees(spec)
}

// agrees reports whether the tasks of an attempt have to agree on a checkpoint. Older coordinators do not send the
// peers for that.
func (in *Inputs) agrees(spec *v1.TaskSpec) bool {
	return in.cfg.Peers != nil && len(spec.GetPeers()) > 1 && spec.GetPeers()[0].GetGrpcAddr() != ""
}

// fetchResume finds the checkpoint that a task resumes from, and fetches it if it is not on the node: the first one
// that is here, in the archive, or on the node that registered it, unchanged since its registration. A newer checkpoint
// elsewhere always comes before an older one on this node. All tasks of an attempt resume from the same step. It
// returns nil if there is nothing to decide.
func (in *Inputs) fetchResume(ctx context.Context, id taskid.ID, spec *v1.TaskSpec, fetch func(datacache.Request) (*datacache.Data, error)) (*resume, error) {
	if !in.needsResume(id, spec) {
		return nil, nil
	}
	s := in.newSearch(id, spec, fetch)
	switch {
	case !in.agrees(spec):
		return s.first(ctx)
	case id.Rank == 0:
		return s.lead(ctx)
	}
	return s.follow(ctx)
}

// baseOf returns the last element of a path.
func baseOf(path string) string {
	if name := filepath.Base(path); filepath.IsLocal(name) && name != "." {
		return name
	}
	return "checkpoint"
}

// ResumeFrom returns the checkpoint that a task resumes from, or "" for none. decided is false if Fetch had nothing to
// decide. dir is the task's directory.
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
