package outputs

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/safedir"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
)

const (
	// sweepPause is the time between two sweeps.
	sweepPause = time.Hour
	// maxOutputEntries limits how many files of a directory are examined for its age; a larger directory is kept.
	maxOutputEntries = 1_000_000
	// maxAsked limits the jobs in one question to a coordinator.
	maxAsked = 1000
	// goingPrefix is the prefix of outputs that are being removed.
	goingPrefix = ".going-"
)

// jobOutputs matches the name of a directory of a job.
var jobOutputs = regexp.MustCompile(`^(job_[0-9a-z]+(?:_[0-9]+)?)\.(attempt-[0-9]+|checkpoints)$`)

// Cleaner removes unneeded outputs.
type Cleaner struct {
	Dirs *Dirs
	// Keep is how long outputs are kept after their last change; 0: for ever.
	Keep time.Duration
	// Live lists the jobs with a task on this node that has not ended. It returns false if that is unknown, because the
	// agent is stopping.
	Live func() (jobs map[string]bool, ok bool)
	// Needed asks a coordinator which outputs of some jobs are still needed.
	Needed func(ctx context.Context, jobs []string) (*v1.GetNeededOutputsResponse, error)
	Log    *slog.Logger
}

// Run sweeps periodically until ctx ends.
func (c *Cleaner) Run(ctx context.Context) {
	for ctx.Err() == nil {
		c.sweep(ctx)
		wait.For(ctx, sweepPause)
	}
}

// sweep removes the empty directories that earlier agents left. Unless Keep is 0, it also removes directories that were not
// changed for that time, belong to ended jobs, and contain no registered checkpoint.
func (c *Cleaner) sweep(ctx context.Context) {
	live, ok := c.Live()
	if !ok {
		return
	}
	old := make(map[string][]string)
	for _, dir := range c.Dirs.list() {
		job := taskid.JobOf(jobOutputs.FindStringSubmatch(filepath.Base(dir))[1])
		if ctx.Err() != nil || live[job] {
			continue
		}
		removed := false
		_ = c.Dirs.unused(dir, func() error {
			removed = unix.Rmdir(dir) == nil
			return nil
		})
		if !removed && c.Keep > 0 && c.untouchedFor(ctx, dir) > c.Keep {
			old[job] = append(old[job], dir)
		}
	}
	if len(old) > 0 {
		c.remove(ctx, old)
	}
}

// list returns the directories of jobs in Folder: in the folders of tenants, and where older versions put them. It
// completes removals that an earlier agent had begun.
func (o *Dirs) list() (dirs []string) {
	tops, _ := os.ReadDir(o.base) // a missing directory counts as empty
	for _, top := range tops {
		path := filepath.Join(o.base, top.Name())
		switch {
		case strings.HasPrefix(top.Name(), goingPrefix):
			_ = os.RemoveAll(path)
		case !top.IsDir():
		case jobOutputs.MatchString(top.Name()):
			dirs = append(dirs, path)
		default:
			below, _ := os.ReadDir(path)
			for _, e := range below {
				if e.IsDir() && jobOutputs.MatchString(e.Name()) {
					dirs = append(dirs, filepath.Join(path, e.Name()))
				}
			}
		}
	}
	return dirs
}

// untouchedFor returns how long a directory has not changed; 0: unknown.
func (c *Cleaner) untouchedFor(ctx context.Context, dir string) time.Duration {
	info, err := os.Lstat(dir)
	if err != nil {
		return 0
	}
	newest := info.ModTime()
	top, err := safedir.Open(dir)
	if err != nil {
		return 0
	}
	defer top.Close()
	left := maxOutputEntries
	err = top.Walk(ctx, &left, func(e safedir.Entry) error {
		if at := time.Unix(e.Changed.Unix()); at.After(newest) {
			newest = at
		}
		return nil
	})
	if err != nil {
		if ctx.Err() == nil {
			c.Log.Warn("outputs are kept: their age is unknown", "dir", dir, "error", err)
		}
		return 0
	}
	return time.Since(newest)
}

// remove removes directories of jobs, unless a coordinator says that they are needed. Without an answer all are kept.
func (c *Cleaner) remove(ctx context.Context, old map[string][]string) {
	jobs := make([]string, 0, len(old))
	for job := range old {
		jobs = append(jobs, job)
	}
	for len(jobs) > 0 && ctx.Err() == nil {
		some := jobs[:min(len(jobs), maxAsked)]
		jobs = jobs[len(some):]
		needed, err := c.Needed(ctx, some)
		if err != nil {
			c.Log.Warn("outputs are kept: no coordinator answered which of them are needed", "jobs", len(some), "error", err)
			return
		}
		for _, job := range needed.GetUnfinishedJobIds() {
			delete(old, job)
		}
		for _, job := range some {
			for _, dir := range old[job] {
				if holds(dir, needed.GetCheckpointPaths()) {
					continue
				}
				if err := c.Dirs.remove(dir); err != nil {
					c.Log.Error("cannot remove outputs", "dir", dir, "error", err)
					continue
				}
				c.Log.Info("removed outputs that are older than keep_outputs_for", "dir", dir)
			}
		}
	}
}

// holds reports whether one of some paths leads into a directory. Paths of other nodes do not count.
func holds(dir string, paths []string) bool {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return true // unknown: keep it
	}
	for _, path := range paths {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if safedir.Within(path, dir) {
			return true
		}
		if to, err := filepath.EvalSymlinks(path); err == nil && safedir.Within(to, real) {
			return true
		}
	}
	return false
}

// remove removes a directory that no task uses. It renames the directory first, so that a task launched meanwhile gets a
// new one.
func (o *Dirs) remove(dir string) error {
	going := filepath.Join(o.base, goingPrefix+filepath.Base(filepath.Dir(dir))+"-"+filepath.Base(dir))
	moved := false
	err := o.unused(dir, func() error {
		err := os.Rename(dir, going)
		moved = err == nil
		return err
	})
	if err != nil || !moved {
		return err
	}
	if err := os.RemoveAll(going); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
