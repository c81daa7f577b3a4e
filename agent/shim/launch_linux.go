package shim

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/agent/shim/output"
	"github.com/mindcoordinator/mind/agent/shim/program"
	"github.com/mindcoordinator/mind/agent/taskfile"
)

// failure is why a command was not started.
type failure struct{ kind, message string }

// launch starts the command.
func (s *shim) launch() *failure {
	if s.spec.Refusal != "" {
		return &failure{FailureLaunch, s.spec.Refusal}
	}
	if dir, err := s.makeDirs(); err != nil {
		return &failure{FailureLaunch, "cannot make directory " + dir + " on node " + s.spec.Node + ": " + program.Cause(err)}
	}
	if s.spec.FilesMade() {
		for _, name := range []string{MetricsFile, EventsFile} {
			if err := s.spec.User.GiveFile(name); err != nil {
				return s.unfit("make the files of the task", err)
			}
		}
	}
	// It may work in one of them.
	if err := s.prepare(); err != nil {
		return s.unfit("give the files of the task to its user", err)
	}
	if f := s.enterRoom(); f != nil {
		return f
	}
	cwd := s.cwd()
	var why string
	if err := s.as(func() { why = program.Cwd(cwd, s.spec.Node) }); err != nil {
		return s.unfit("become the user of the task", err)
	}
	if why != "" {
		return &failure{FailureCwdMissing, why}
	}
	if len(s.spec.Argv) == 0 || s.spec.Argv[0] == "" {
		return &failure{FailureLaunch, "the job has no command to run"}
	}
	var path string
	_ = s.as(func() { path, why = program.Find(s.spec.Argv[0], cwd, s.spec.Env, s.spec.Node) })
	if why != "" {
		return &failure{FailureLaunch, why}
	}
	if err := s.writeBaseline(); err != nil {
		return &failure{FailureLaunch, "cannot read checkpoint directory " + s.spec.CheckpointDir + " on node " + s.spec.Node + ": " + program.Cause(err)}
	}
	return s.start(path, cwd)
}

// cwd returns the working directory of the task; empty: that of the shim.
func (s *shim) cwd() string {
	if s.spec.Cwd == "" && len(s.spec.Dirs) > 0 {
		return s.spec.Dirs[0]
	}
	return s.spec.Cwd
}

// as runs a function as the user of the task, in its view of the file system.
func (s *shim) as(f func()) error { return s.spec.Room.In(&s.spec.User, f) }

func (s *shim) unfit(what string, err error) *failure {
	return &failure{FailureUnfit, "cannot " + what + " on node " + s.spec.Node + ": " + program.Cause(err)}
}

func (s *shim) start(path, cwd string) *failure {
	null, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return s.unfit("open /dev/null", err)
	}
	defer syscall.Close(null)
	printed, ends, err := output.New(s.log)
	if err != nil {
		return s.unfit("make pipes", err)
	}
	defer syscall.Close(ends[0])
	defer syscall.Close(ends[1])
	attr := &syscall.ProcAttr{
		Dir:   cwd,
		Env:   s.spec.Env,
		Files: []uintptr{uintptr(null), uintptr(ends[0]), uintptr(ends[1])},
		// init runs locked to the first thread, which lives as long as the
		// process: the death signal cannot fire early.
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if s.group, err = confine.NewGroup(s.spec.Cgroup, s.spec.Limits); err != nil {
		return s.unfit("make the control group "+s.spec.Cgroup, err)
	}
	s.group.Use(attr.Sys)
	if s.lease.Past(Boottime()) {
		return &failure{FailureNodeLost, "not started by its own node: " + s.lease.silence()}
	}
	if !s.spec.Walls.None() {
		if s.thread == nil {
			s.thread = confine.NewThread()
		}
		if s.thread.Do(func() { err = s.spec.Walls.Enter() }); err != nil {
			return s.unfit("put the task behind its walls", err)
		}
	}
	if err := markBegun("."); err != nil {
		return s.unfit("write the task directory", err)
	}
	for _, end := range ends {
		s.spec.User.GiveStream(end)
	}
	if !s.spec.User.None() {
		s.onThread(func() { syscall.Umask(0o077) }) // the task inherits it
	}
	if f := s.lacks(attr); f != nil {
		return f
	}
	s.exit.Started = time.Now().UnixNano()
	pid, err := s.forkExec(path, s.spec.Argv, attr)
	if err != nil {
		s.exit.Started = 0
		switch {
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
			// Of the control group.
			errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EOPNOTSUPP):
			return s.unfit("start a process", err)
		}
		return &failure{FailureLaunch, "cannot run " + path + " on node " + s.spec.Node + ": " + s.whyNot(err)}
	}
	s.exit.Pid = pid
	s.output = printed
	printed.Start()
	return nil
}

// forkExec starts a process of the task.
func (s *shim) forkExec(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	s.spec.User.Use(attr.Sys)
	if !s.spec.Room.None() {
		// The end of the room kills it. Package syscall would kill it at once: its parent is in another PID namespace, and looks dead.
		attr.Sys.Pdeathsig = 0
	}
	if !s.onThread(func() { pid, err = syscall.ForkExec(path, argv, attr) }) {
		return 0, syscall.ESRCH
	}
	confine.Lighten(pid)
	return pid, err
}

// onThread runs a function on the thread that starts the processes of the task. It returns false if the thread has ended.
func (s *shim) onThread(f func()) bool {
	if s.thread == nil {
		f()
		return true
	}
	return s.thread.Do(f)
}

// whyNot explains an error of exec that the earlier checks did not find.
func (s *shim) whyNot(err error) string {
	switch {
	case errors.Is(err, syscall.EACCES) && len(s.spec.Walls.Read) > 0:
		return "permission denied: it, its interpreter or the working directory may be outside of the paths that jobs reach on this node"
	case errors.Is(err, syscall.ENOENT):
		return "its interpreter or loader is missing"
	case errors.Is(err, syscall.ENOEXEC):
		return "it is neither a program for this machine nor a script that begins with #!"
	case errors.Is(err, syscall.E2BIG):
		return "its arguments and environment are too large"
	}
	return program.Cause(err)
}

// Identity distinguishes two directory entries of the same name.
func Identity(info os.FileInfo) string {
	inode := uint64(0)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = stat.Ino
	}
	return strconv.FormatUint(inode, 10) + ":" + strconv.FormatInt(info.ModTime().UnixNano(), 10)
}

// writeBaseline records the contents of the checkpoint directory, so that files of an earlier attempt do not count as
// this one's.
func (s *shim) writeBaseline() error {
	dir := s.spec.CheckpointDir
	if dir == "" {
		return nil
	}
	var entries []os.DirEntry
	var err error
	// On a file system of the network, root may have no rights.
	if failed := s.spec.User.As(func() { entries, err = os.ReadDir(dir) }); failed != nil {
		return failed
	}
	if err != nil || len(entries) == 0 {
		return err
	}
	data := []byte{'{'}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // gone meanwhile
		}
		if len(data) > 1 {
			data = append(data, ',')
		}
		data = append(appendJSONString(data, e.Name()), ':')
		data = appendJSONString(data, Identity(info))
	}
	return taskfile.Replace(".", BaselineFile, append(data, '}'))
}
