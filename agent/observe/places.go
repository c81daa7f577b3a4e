package observe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/safedir"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/shim/confine"
)

var (
	errWrittenLater = errors.New("written later")
	// ErrPrivate is the error for directories that belong to the agent or to another job.
	ErrPrivate = errors.New("it is, or contains, a directory of the agent or of another job: write checkpoints below $MIND_CHECKPOINT_DIR, $MIND_OUTPUT_DIR or a cwd of your own")

	errNotWithin    = errors.New("it is outside of the directories that the job may register from: its output and checkpoint directories, its working directory, and data_roots of the agent")
	errTooManyFiles = fmt.Errorf("it has more than %d files", maxCheckpointFiles)
)

// places are the directories in which checkpoints of a job may be.
type places struct {
	// own are the directories that agents created for the job; granted are the directories that the operator lists;
	// roots are granted and the working directory.
	own, granted, roots []string
	// private are directories that no job may read through its agent.
	private *private.Paths
	// user is that of the task, and mounts are those of its room: the agent looks only at what the task sees, with its rights.
	user   confine.User
	mounts []confine.Mount
}

func placesOf(spec shim.Spec, roots []string) places {
	p := places{own: slices.Clone(spec.Dirs), granted: roots, roots: roots, user: spec.User, mounts: spec.Room.Mounts}
	if spec.CheckpointDir != "" {
		p.own = append(p.own, spec.CheckpointDir)
	}
	// A job that runs in the root of the file system does not own all of it.
	if spec.Cwd != "" && spec.Cwd != "/" {
		p.roots = slices.Concat([]string{spec.Cwd}, roots)
	}
	return p
}

// ofAJob matches the names of job folders.
var ofAJob = regexp.MustCompile(`^job_[0-9a-z]+$`)

// ownAt resolves a directory that agents created for a job. When they created it, neither it nor the job folder above
// it was a link; the task may have put one there since.
func ownAt(dir string) (string, error) {
	above, name := filepath.Dir(dir), filepath.Base(dir)
	if folder := filepath.Base(above); ofAJob.MatchString(folder) {
		above, name = filepath.Dir(above), filepath.Join(folder, name)
	}
	above, err := filepath.EvalSymlinks(above)
	return filepath.Join(above, name), err
}

// all calls do with each place, once with links resolved and once as configured, until do returns false.
func (p places) all(do func(at, named string) bool) {
	for i, named := range slices.Concat(p.own, p.roots) {
		resolve := filepath.EvalSymlinks
		if i < len(p.own) {
			resolve = ownAt
		}
		if at, err := resolve(named); err == nil && !do(at, named) {
			return
		}
	}
}

// open opens a directory in one of the places. The path may contain links, if their target is also in one of them.
func (p places) open(path string) (dir *safedir.Dir, err error) {
	if failed := p.user.As(func() { dir, err = p.openAs(path) }); failed != nil {
		return nil, failed
	}
	return dir, err
}

// openAs does that with the rights of the calling thread.
func (p places) openAs(path string) (dir *safedir.Dir, err error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, p.missing(path)
	}
	if p.private.Reaches(real, p.owned()...) {
		return nil, ErrPrivate
	}
	err = errNotWithin
	if shown, _ := confine.Shown(p.mounts, real); !shown || slices.ContainsFunc(p.mounts, func(m confine.Mount) bool {
		return safedir.Within(m.To, real) && (m.Kind != confine.Bound || m.From != m.To) && m.To != real
	}) {
		return nil, err // the task has something else at this path, or below it
	}
	p.all(func(at, _ string) bool {
		if !safedir.Within(real, at) {
			return true
		}
		dir, err = safedir.Resolved(real)
		return false
	})
	return dir, err
}

// has reports whether the user of the task sees something at a path.
func (p places) has(path string) bool {
	missing := fs.ErrNotExist
	_ = p.user.As(func() { _, missing = os.Lstat(path) })
	return missing == nil
}

// owned returns the private directories from which the job may register checkpoints: those that agents created for it,
// and those that the operator lists.
func (p places) owned() (dirs []string) {
	for _, named := range p.own {
		if at, err := ownAt(named); err == nil {
			dirs = append(dirs, at)
		}
	}
	for _, named := range p.granted {
		if at, err := filepath.EvalSymlinks(named); err == nil && p.private.Holds(at) {
			dirs = append(dirs, at)
		}
	}
	return dirs
}

// missing explains a path that does not exist. A path outside the places gets the same error whether it exists or not,
// because the job may not learn that.
func (p places) missing(path string) error {
	err := errNotWithin
	p.all(func(at, named string) bool {
		name, relErr := filepath.Rel(named, path)
		if relErr != nil || !filepath.IsLocal(name) {
			return true
		}
		top, openErr := safedir.Resolved(at)
		if openErr != nil {
			return true
		}
		defer top.Close()
		if _, lookErr := top.Look(name); errors.Is(lookErr, fs.ErrNotExist) || errors.Is(lookErr, fs.ErrPermission) {
			err = lookErr
		}
		return false
	})
	return err
}

// manifestWithin makes the manifest of a directory in one of the places.
func manifestWithin(ctx context.Context, may places, path string, left *int) (m manifest, err error) {
	failed := may.user.As(func() {
		var dir *safedir.Dir
		if dir, err = may.openAs(path); err == nil {
			defer dir.Close()
			m, err = manifestOf(ctx, dir, "", left)
		}
	})
	if failed != nil {
		return m, failed
	}
	return m, err
}
