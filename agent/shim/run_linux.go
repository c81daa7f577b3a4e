package shim

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/agent/shim/descent"
	"github.com/mindcoordinator/mind/agent/shim/output"
	"github.com/mindcoordinator/mind/agent/taskfile"
	"github.com/mindcoordinator/mind/agent/tasklog"
)

func init() {
	if len(os.Args) > 1 && os.Args[1] == Command {
		os.Exit(run(os.Args[2:]))
	}
}

// Exit codes of the shim itself. Only people read them.
const (
	exitOK       = 0
	exitMisuse   = 2
	exitTaken    = 75
	exitNoDir    = 66
	exitInternal = 70
)

const (
	prSetName           = 15
	prSetChildSubreaper = 36
	sysCloseRange       = 436
	closeRangeCloexec   = 4
	// patience limits how long the shim waits for the rest of the output after every process is gone.
	patience = 10 * time.Second
)

func run(args []string) int {
	wait := len(args) == 3 && args[2] == WaitFlag
	if (len(args) != 2 && !wait) || args[0] != DirFlag {
		complain("usage: mind shim --dir DIR (only agents run this command)")
		return exitMisuse
	}
	if !wait {
		s, code := take(args[1], nil, SocketFD)
		if s == nil {
			return code
		}
		return s.run()
	}
	parent := args[1]
	name, agent := awaitTask(SocketFD)
	for used := 0; agent != nil; used++ {
		listener := SocketFD
		if used > 0 {
			listener = -1
		}
		s, code := take(parent+"/"+name, agent, listener)
		if s == nil {
			return code
		}
		s.used = used
		if code := s.run(); code != exitOK {
			return code
		}
		name, agent = s.again(parent)
	}
	return exitOK
}

// take makes the task in a directory this shim's own. A shim that had an earlier task has no listening socket, and creates
// the one that the specification names: a connection to the former socket must not reach this task.
func take(dir string, agent *caller, listener int) (*shim, int) {
	// All paths after this are relative, so the length of the directory's path does not matter.
	if err := os.Chdir(dir); err != nil {
		complain(err.Error())
		return nil, exitNoDir
	}
	// The lock is a bare descriptor and no os.File: nothing may close it while the task lives.
	lock, err := syscall.Open(".", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		complain(err.Error())
		return nil, exitNoDir
	}
	if err := syscall.Flock(lock, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		complain("another shim runs in " + dir)
		return nil, exitTaken
	}
	spec, err := ReadSpec(".")
	if err != nil {
		complain(err.Error())
		return nil, exitNoDir
	}
	if spec.Begun {
		complain("the command in " + dir + " was begun before")
		return nil, exitTaken
	}
	if listener < 0 {
		if listener, err = listen(spec.Socket); err != nil {
			complain("listen for agents: " + err.Error())
			return nil, exitInternal
		}
	} else {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
			complain("become subreaper: " + errno.Error())
			return nil, exitInternal
		}
		// The task gets three descriptors, whatever descriptors the agent inherited.
		_, _, _ = syscall.RawSyscall(sysCloseRange, SocketFD, ^uintptr(0)>>1, closeRangeCloexec)
		syscall.CloseOnExec(SocketFD)
	}
	resetUmask()
	s := &shim{spec: spec, lock: lock, listener: listener, exit: Exit{Code: -1}, agent: agent, lease: enforcer{Hold: Hold{Deadline: spec.Lease.Deadline}}}
	s.log = tasklog.NewWriter(LogDir, tasklog.Limits{SegmentBytes: spec.SegmentBytes, TotalBytes: spec.LogBytes})
	return s, exitOK
}

func complain(text string) { _, _ = os.Stderr.WriteString("mind shim: " + text + "\n") }

// shim is one task.
type shim struct {
	spec     Spec
	lock     int // on the task directory
	listener int // where agents connect
	log      *tasklog.Writer
	exit     Exit
	door     *door
	output   *output.Output
	group    *confine.Group
	thread   *confine.Thread // starts the processes of the task; nil: there are no walls
	plan     StopPlan
	agent    *caller // the agent that brought the task; nil: the task came with the arguments
	lease    enforcer
	shells   shells
	forker   forker
	ended    time.Time // of the command, in a room
	used     int       // tasks that this process had before
	whole    bool
}

func (s *shim) run() int {
	failure := s.launch()
	s.door = openDoor(s.listener, s.agent, s.lease.Deadline, func(text string) { s.log.Remark(time.Now(), text) })
	if failure != nil {
		s.exit.Failure, s.exit.Message = failure.kind, failure.message
		s.log.Remark(time.Now(), "mind: "+failure.message)
		return s.finish()
	}
	s.door.announce("started " + strconv.Itoa(s.exit.Pid) + " " + strconv.FormatInt(s.exit.Started, 10))
	s.settle()
	s.wait()
	s.whole = s.drain()
	s.explain()
	return s.finish()
}

// settle does the work that can wait until the command runs.
func (s *shim) settle() {
	if s.used == 0 {
		ignoreSignals()
		// This sets the name in ps: the agent starts shims through a link without a useful name.
		name := [16]byte{'m', 'i', 'n', 'd', '-', 's', 'h', 'i', 'm'}
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetName, uintptr(unsafe.Pointer(&name)), 0)
	}
	protect()
}

// wait returns when no process of the task is left: no descendant, and none in its control group.
func (s *shim) wait() {
	ends := descent.Reap(s.exit.Pid)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	s.enforce()
	var empty time.Time // when no process was left; zero: some are
	for {
		select {
		case end := <-ends:
			s.took(end)
			if end.Main {
				s.commandEnded(time.Now())
			}
			if end.Last {
				empty = time.Now()
			}
		case e := <-s.door.shells:
			s.tookShell(e)
		case started := <-s.forker.started:
			s.tookStart(started)
		case request := <-s.door.requests:
			s.exit.Stopped = s.exit.Stopped || s.exit.Ended == 0
			s.plan.Ask(time.Now(), request)
		case deadline := <-s.door.deadlines:
			s.extend(deadline)
		case <-s.lease.alarm:
			s.enforce()
		case <-timer.C:
		}
		now := time.Now()
		look := s.leaveRoom(now)
		switch {
		case empty.IsZero():
		case s.shells.alive(): // it was started while the last process ended
			ends, empty = descent.Reap(0), time.Time{}
		case !s.group.EmptySoon(): // others have put processes there that are no descendants
			s.plan.leftovers(now)
		case len(s.forker.starting) == 0 || now.Sub(empty) >= shellGrace:
			return
		}
		for {
			action, next := s.plan.Step(now)
			if action == ActNone {
				if !empty.IsZero() {
					next = min(next, shellGrace)
				}
				timer.Reset(min(next, look, s.shells.step(now)))
				break
			}
			s.act(action)
		}
	}
}

// took handles the end of a process.
func (s *shim) took(end descent.End) {
	switch {
	case end.Main:
		s.exit.Ended = time.Now().UnixNano()
		s.exit.MaxRSSKB = end.Usage.Maxrss
		s.exit.UserMicro = end.Usage.Utime.Sec*1e6 + int64(end.Usage.Utime.Usec)
		s.exit.SysMicro = end.Usage.Stime.Sec*1e6 + int64(end.Usage.Stime.Usec)
		if end.Status.Signaled() {
			s.exit.Signal = int(end.Status.Signal())
			s.exit.Code = 128 + s.exit.Signal
		} else {
			s.exit.Code = end.Status.ExitStatus()
		}
	case s.endedShell(end):
	case end.Pid != 0 && end.Pid == s.spec.Room.Pid():
		s.spec.Room.Reaped()
	case end.Pid != 0:
		if len(s.forker.starting) > 0 {
			s.forker.ends[end.Pid] = end
		}
		if s.exit.Ended != 0 && s.spec.Room.None() {
			s.exit.Killed++
		}
	}
}

func (s *shim) act(action Action) {
	switch action {
	case ActNotice:
		for _, pid := range descent.ToNotice(s.exit.Pid, syscall.SIGUSR1) {
			_ = syscall.Kill(pid, syscall.SIGUSR1)
		}
	case ActTerm:
		// A stopped process cannot act on SIGTERM, so it is continued.
		s.signalAll(syscall.SIGTERM, syscall.SIGCONT)
	case ActKill:
		// The group is empty when no process can come any more; descendants may have left it, as root can.
		s.group.Kill()
		s.signalAll(syscall.SIGKILL)
		s.spec.Room.Kill()
	}
}

// drain reads the rest of the output. It returns false if it could not read all of it.
func (s *shim) drain() bool {
	whole := s.output.Wait(patience)
	if !whole {
		s.log.Remark(time.Now(), "mind: output was cut off: the log could not be written in time, or a foreign process held it open")
	}
	if s.exit.Failure == FailureNodeLost {
		s.log.Remark(time.Now(), "mind: "+s.exit.Message)
	}
	s.log.Close(time.Now())
	return whole
}

// finish sends the exit to the agent, and then writes it to disk: after a report the coordinators keep it. On a full
// disk the shim stays alive, with the exit in its memory.
func (s *shim) finish() int {
	close(s.door.over)
	s.spec.Room.End()
	s.thread.Close()
	s.spec.Walls.Close()
	if s.exit.Ended == 0 {
		s.exit.Ended = time.Now().UnixNano()
		s.log.Close(time.Now())
	}
	if s.group.Remove(); s.group == nil && s.spec.Cgroup != "" {
		confine.RemoveGroup(s.spec.Cgroup) // the agent has made it, and the command was never started
	}
	data := s.exit.JSON()
	s.door.announce("exited " + string(data))
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		// The remark comes first: when the exit is there, the log is complete.
		s.log.TellLost(time.Now())
		err := taskfile.Replace(".", ExitFile, data)
		switch {
		case err == nil:
			s.log.TellLost(time.Now()) // room may have come only now
			return exitOK
		case os.IsNotExist(err):
			return exitNoDir // the directory was removed: nothing will read it
		case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST):
			return exitInternal // the task has put a directory there
		}
		time.Sleep(wait)
	}
}
