package launch

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/mindcoordinator/mind/agent/inputs"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
)

// Bound makes the directories of a task, as its shim would, and holds them and the files that it may write to the quota of its job. dir is
// the directory of the task. An error is a fault of the node.
func (l *Launcher) Bound(id taskid.ID, s shim.Spec, dir string) error {
	if l == nil || l.Quotas == nil || s.Refusal != "" {
		return nil
	}
	var dirs []string
	for _, path := range s.Dirs {
		made, err := l.makeDir(s, path)
		if err != nil {
			return fmt.Errorf("make a directory of the task: %w", err)
		}
		if made {
			dirs = append(dirs, path)
		}
	}
	var trees []string
	for _, name := range []string{shim.MetricsFile, shim.EventsFile} {
		path := filepath.Join(dir, name)
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			err = file.Close()
		}
		if err != nil {
			return fmt.Errorf("make a file of the task: %w", err)
		}
		trees = append(trees, path)
	}
	return l.Quotas.Bound(id.Job, dirs, append(trees, filepath.Join(dir, inputs.UploadDir)))
}

// makeDir makes a directory of a task. It returns false if that is left to the shim, and to the user of the task: nothing holds such a
// directory to a quota.
func (l *Launcher) makeDir(s shim.Spec, path string) (made bool, err error) {
	name, err := filepath.Rel(l.Outputs.Base(), path)
	if err != nil || !filepath.IsLocal(name) || name == "." {
		return false, nil
	}
	if s.User.None() {
		return true, os.MkdirAll(path, 0o755)
	}
	return s.User.MakeOwn(l.Outputs.Base(), name)
}

// DiskFull adds to the end of a task that failed that its job has used up its quota, if it has.
func (l *Launcher) DiskFull(exit shim.Exit, dirs []string) (_ shim.Exit, full bool) {
	if l == nil || l.Quotas == nil || exit.Code <= 0 || exit.Stopped {
		return exit, false
	}
	taken := l.Quotas.Full(dirs)
	if taken == 0 {
		return exit, false
	}
	if exit.Message != "" {
		exit.Message += "; "
	}
	exit.Message += fmt.Sprintf("the outputs and checkpoints of the job take %d MiB on node %s, and may take %d MiB (job_disk_mb of the agent)", taken, l.Node, l.Quotas.MB())
	return exit, true
}
