package shim

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/agent/shim/descent"
	"github.com/mindcoordinator/mind/agent/shim/program"
)

// lingering is how long the first process of a room may take to end when nothing but it is left. After that, something is left that
// the control group does not have.
const lingering = 250 * time.Millisecond

// enterRoom makes the namespaces of the task, if it has some.
func (s *shim) enterRoom() *failure {
	if s.spec.Room.None() {
		return nil
	}
	if s.cwd() == "" {
		var err error
		if s.spec.Cwd, err = os.Getwd(); err != nil {
			return s.unfit("find the task directory", err)
		}
	}
	if path, err := s.spec.User.Cannot(s.spec.Sources); err != nil {
		return &failure{FailureLaunch, "cannot mount " + path + " on node " + s.spec.Node + ": " + program.Cause(err)}
	}
	s.thread = confine.NewThread()
	var err error
	s.thread.Do(func() { err = s.spec.Room.Enter() })
	if err == nil {
		return nil
	}
	what := "isolate the task"
	var path *os.PathError
	if errors.As(err, &path) {
		what += ": " + path.Op + " " + path.Path
	}
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) || path != nil && s.named(path.Path) {
		// Paths were without links when the agent looked: the job, or another one of its user, has put one there. Or the job has named
		// a path that cannot be mounted.
		return &failure{FailureLaunch, "cannot " + what + " on node " + s.spec.Node + ": " + program.Cause(err)}
	}
	return s.unfit(what, err)
}

// named reports whether the job has named a path of the room: as a source or a target of a mount, or as a directory of its own.
func (s *shim) named(path string) bool {
	for i := range s.spec.Room.Mounts {
		m := &s.spec.Room.Mounts[i]
		if m.Kind != confine.Bound || path != m.From && path != m.To {
			continue
		}
		if slices.Contains(s.spec.Sources, m.From) || s.ownDir(m.To) {
			return true
		}
	}
	return false
}

// ownDir reports whether a path is one of the directories of the task, whose last two names no link changes.
func (s *shim) ownDir(path string) bool {
	for _, dir := range s.spec.Dirs {
		if lastTwo(dir) == lastTwo(path) {
			return true
		}
	}
	return false
}

func lastTwo(path string) string {
	at, left := len(path), 2
	for at > 0 && left > 0 {
		if at--; path[at] == '/' {
			left--
		}
	}
	return path[at:]
}

// commandEnded is called when the command has ended. It asks other processes of the task to end, too, if there are some.
func (s *shim) commandEnded(now time.Time) {
	// Shells are told first: an interactive one ignores SIGTERM.
	s.shells.hangUp(now)
	if s.spec.Room.None() {
		s.plan.leftovers(now)
		return
	}
	s.ended = now
	// The orphans of a room are reaped in it, so they are not counted when they end.
	left := s.group.Processes()
	if s.group == nil {
		left = descent.Of(s.spec.Room.Pid())
	}
	for _, pid := range left {
		if !s.shells.has(pid) {
			s.exit.Killed++
		}
	}
	if len(left) > 0 {
		s.plan.leftovers(now)
	}
}

// leaveRoom lets the room end as soon as the command and all shells have ended. It returns when to look again.
func (s *shim) leaveRoom(now time.Time) time.Duration {
	if s.exit.Ended == 0 || s.spec.Room.Pid() == 0 || s.shells.alive() || len(s.forker.starting) > 0 {
		return time.Hour
	}
	s.spec.Room.Leave()
	left := lingering - now.Sub(s.ended)
	if !s.plan.asked && left <= 0 {
		s.plan.leftovers(now)
	}
	if s.plan.asked {
		return time.Hour
	}
	return left
}
