package tasks

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	"github.com/mindcoordinator/mind/agent/tasks/table"
)

// left reads what an earlier agent left of a task. It runs beside the owner, which does not have the task yet.
func (c *Config) left(id taskid.ID) table.Left {
	dir := filepath.Join(c.Dir, id.Name())
	spec, err := shim.ReadSpec(dir)
	if err == nil && spec.Acked || c.overUnread(dir, err) {
		return table.Left{ID: id, Ended: true, EndedAt: endOf(dir)}
	}
	c.Inputs.Hold(id, dir)
	_, noMark := os.Lstat(filepath.Join(dir, disownedFile))
	return table.Left{ID: id, Has: c.GPUs.HoldingOfRecord(spec, err), Disowned: noMark == nil}
}

// endOf is when the task in a directory ended. If a power cut destroyed that record, the directory's change time is close:
// its log must not be removed too early.
func endOf(dir string) time.Time {
	if exit, err := runner.ReadExit(dir); err == nil {
		return time.Unix(0, exit.Ended)
	}
	if info, err := os.Stat(dir); err == nil {
		return info.ModTime()
	}
	return time.Now()
}

// A task that a newer agent launched is left alone: its shim continues without this agent, and stops the task at its
// deadline. Meanwhile nothing is launched on GPUs that it may have, which are all of them. Every version can read how it
// ended.

// overUnread reports whether such a task has ended; err is the error of reading its record. The record says whether the
// coordinators know the end: it is reported when they order the task.
func (c *Config) overUnread(dir string, err error) bool {
	if newer := (shim.VersionError{}); !errors.As(err, &newer) || !c.Processes.Gone(dir) {
		return false
	}
	_, err = runner.ReadExit(dir)
	return err == nil
}

// endedUnread reports the end of such a task, if it has ended.
func (f *follower) endedUnread(err error) bool {
	if !f.cfg.overUnread(f.dir, err) {
		return false
	}
	exit, err := runner.ReadExit(f.dir)
	if err != nil {
		return false
	}
	if exit.Ended == 0 {
		exit.Ended = time.Now().UnixNano()
	}
	f.door.Tell(func(tb *table.Table) { tb.Ends(f.task, f.cause(f.dir, exit)) })
	return true
}
