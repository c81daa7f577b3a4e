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

// left reads what an earlier agent left of a task. It runs beside the owner, whom the task is none of yet.
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

// endOf is when the task in a directory ended. Where a power cut took the record of it, the directory was last changed about then:
// its log must not go before its time.
func endOf(dir string) time.Time {
	if exit, err := runner.ReadExit(dir); err == nil {
		return time.Unix(0, exit.Ended)
	}
	if info, err := os.Stat(dir); err == nil {
		return info.ModTime()
	}
	return time.Now()
}

// A task that a newer agent launched is let be: its shim goes on without this agent, and stops it at its deadline. Nothing is
// launched meanwhile on GPUs that it may have, that is on any. How it ended can be read in every version.

// overUnread reports whether such a task has ended; err is that of reading its record. Whether the coordinators know is in the
// record: it is told to them when they name the task.
func (c *Config) overUnread(dir string, err error) bool {
	if newer := (shim.VersionError{}); !errors.As(err, &newer) || !c.Processes.Gone(dir) {
		return false
	}
	_, err = runner.ReadExit(dir)
	return err == nil
}

// endedUnread tells of the end of such a task, if it has ended.
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
	f.door.Tell(func(tb *table.Table) { tb.Ends(f.task, blame(f.dir, exit)) })
	return true
}
