package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/mindcoordinator/mind/agent/tree"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// outputsPause is the time between two looks for outputs that may go.
	outputsPause = time.Hour
	// maxOutputEntries bounds the files of a directory that are looked at to find out how old it is; a larger one stays.
	maxOutputEntries = 1_000_000
	// maxNeededJobs bounds one question to a coordinator, neededTime how long it may take.
	maxNeededJobs = 1000
	neededTime    = 30 * time.Second
	// goingPrefix begins the names of outputs that are being removed.
	goingPrefix = ".going-"
)

// jobOutputs is the name of a directory of a job.
var jobOutputs = regexp.MustCompile(`^(job_[0-9a-z]+)\.(attempt-[0-9]+|checkpoints)$`)

// keepOutputs removes outputs that nobody needs, now and then, until the context ends.
func (a *agent) keepOutputs(ctx context.Context) {
	for ctx.Err() == nil {
		a.sweepOutputs(ctx, a.cfg.KeepOutputsFor)
		sleep(ctx, outputsPause)
	}
}

// sweepOutputs removes the empty directories that earlier agents left and, unless keep is 0, what was not changed for so long,
// belongs to jobs that have ended, and holds no checkpoint that the coordinators know.
func (a *agent) sweepOutputs(ctx context.Context, keep time.Duration) {
	live := make(map[string]bool)
	a.ask(func() {
		for k, t := range a.tasks {
			if t.state != ended {
				live[k.job] = true
			}
		}
	})
	old := make(map[string][]string)
	for _, dir := range a.outputs.list() {
		job := jobOutputs.FindStringSubmatch(filepath.Base(dir))[1]
		if ctx.Err() != nil || live[job] || a.isOver() {
			continue
		}
		removed := false
		_ = a.outputs.unused(dir, func() error {
			removed = unix.Rmdir(dir) == nil
			return nil
		})
		if !removed && keep > 0 && a.untouchedFor(ctx, dir) > keep {
			old[job] = append(old[job], dir)
		}
	}
	if len(old) > 0 {
		a.removeOutputs(ctx, old)
	}
}

// list returns the directories of jobs below outputsFolder: those of tenants, and those that earlier versions made. What an earlier
// agent was removing goes.
func (o *outputs) list() (dirs []string) {
	tops, _ := os.ReadDir(o.base) // none is like an empty one
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

// untouchedFor is how long nothing was changed in a directory; 0: that cannot be told.
func (a *agent) untouchedFor(ctx context.Context, dir string) time.Duration {
	info, err := os.Lstat(dir)
	if err != nil {
		return 0
	}
	newest := info.ModTime()
	top, err := tree.Open(dir)
	if err != nil {
		return 0
	}
	defer top.Close()
	left := maxOutputEntries
	err = top.Walk(ctx, &left, func(e tree.Entry) error {
		if at := time.Unix(e.Changed.Unix()); at.After(newest) {
			newest = at
		}
		return nil
	})
	if err != nil {
		if ctx.Err() == nil {
			a.log.Warn("outputs are kept: it cannot be told how old they are", "dir", dir, "error", err)
		}
		return 0
	}
	return time.Since(newest)
}

// removeOutputs removes directories of jobs, unless a coordinator says that they are needed. Without its word all stay.
func (a *agent) removeOutputs(ctx context.Context, old map[string][]string) {
	jobs := make([]string, 0, len(old))
	for job := range old {
		jobs = append(jobs, job)
	}
	for len(jobs) > 0 && ctx.Err() == nil {
		some := jobs[:min(len(jobs), maxNeededJobs)]
		jobs = jobs[len(some):]
		needed, err := a.neededOutputs(ctx, some)
		if err != nil {
			a.log.Warn("outputs are kept: no coordinator says which of them are needed", "jobs", len(some), "error", err)
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
				if err := a.outputs.remove(dir); err != nil {
					a.log.Error("cannot remove outputs", "dir", dir, "error", err)
					continue
				}
				a.log.Info("removed outputs that were not changed for longer than they are kept", "dir", dir)
			}
		}
	}
}

// holds says whether one of some paths leads to something in a directory. What another node has at that path is none of it.
func holds(dir string, paths []string) bool {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return true // not known: better not
	}
	for _, path := range paths {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if lies(path, dir) {
			return true
		}
		if to, err := filepath.EvalSymlinks(path); err == nil && lies(to, real) {
			return true
		}
	}
	return false
}

// remove removes a directory that no task uses. It gets another name first: a task that is launched meanwhile has one of its own.
func (o *outputs) remove(dir string) error {
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

// neededOutputs asks the coordinators, one after the other, which outputs of some jobs are still needed.
func (a *agent) neededOutputs(ctx context.Context, jobs []string) (*v1.GetNeededOutputsResponse, error) {
	var faults []error
	for _, addr := range a.cfg.Coordinators {
		out, err := a.neededOutputsFrom(ctx, addr, jobs)
		if err == nil {
			return out, nil
		}
		faults = append(faults, fmt.Errorf("%s: %w", addr, err))
	}
	return nil, errors.Join(faults...)
}

func (a *agent) neededOutputsFrom(ctx context.Context, addr string, jobs []string) (*v1.GetNeededOutputsResponse, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(a.session.reach.creds), grpc.WithContextDialer(a.cfg.Machine.Network.Dial))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, neededTime)
	defer cancel()
	return v1.NewAgentServiceClient(conn).GetNeededOutputs(ctx, &v1.GetNeededOutputsRequest{NodeId: a.cfg.NodeID, JobIds: jobs})
}
