package agent

import (
	"errors"
	"time"

	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/shim"
)

// A task that a newer agent launched is let be: its shim goes on without this agent, and stops it at its deadline. Nothing is
// launched meanwhile on GPUs that it may have, that is on any. How it ended can be read in every version.

// overUnread reports whether such a task has ended. Whether the coordinators know is in the record: it is told to them when
// they name the task.
func (a *agent) overUnread(t *task, err error) bool {
	if newer := (shim.VersionError{}); !errors.As(err, &newer) || !a.starter.Gone(t.dir) {
		return false
	}
	_, err = runner.ReadExit(t.dir)
	return err == nil
}

// endedUnread waits for no task that has ended, and tells of the end.
func (a *agent) endedUnread(t *task, err error) bool {
	if !a.overUnread(t, err) {
		return false
	}
	exit, err := runner.ReadExit(t.dir)
	if err != nil {
		return false
	}
	if exit.Ended == 0 {
		exit.Ended = time.Now().UnixNano()
	}
	a.post(func() { a.ends(t, blame(t.dir, exit)) })
	return true
}
