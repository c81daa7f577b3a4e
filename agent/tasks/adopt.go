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

// left reads the state of a task that an earlier agent left. It runs beside the owner, which does not have the task
// yet.
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

// endOf returns when the task in a directory ended. If a power cut destroyed that record, it returns the directory's
// change time, which is close: the log must not be removed too early.
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
// deadline. It may have any of the GPUs, so no task is launched on GPUs meanwhile. Every version can read how it ended.

// overUnread reports whether such a task has ended; err is the error of reading its record. Whether the coordinators
// know the end is unknown, so it is reported if they order the task.
func (c *Config) overUnread(dir string, err error) bool {
	if newer := (shim.VersionError{}); !errors.As(err, &newer) || !c.Processes.Gone(dir) {
		return false
	}
	_, err = runner.ReadExit(dir)
	return err == nil
}

// endedUnread reports the end of a task whose record cannot be read, if it has ended.
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
