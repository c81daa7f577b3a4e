package shim

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

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
		return &failure{FailureLaunch, "cannot make directory " + dir + " on node " + s.spec.Node + ": " + cause(err)}
	}
	cwd := s.spec.Cwd
	if cwd == "" && len(s.spec.Dirs) > 0 {
		cwd = s.spec.Dirs[0]
	}
	var f *failure
	if err := s.spec.User.As(func() { f = checkCwd(cwd, s.spec.Node) }); err != nil {
		return &failure{FailureUnfit, "cannot become the user of the task on node " + s.spec.Node + ": " + cause(err)}
	}
	if f != nil {
		return f
	}
	if len(s.spec.Argv) == 0 || s.spec.Argv[0] == "" {
		return &failure{FailureLaunch, "the job has no command to run"}
	}
	var program string
	_ = s.spec.User.As(func() { program, f = findProgram(s.spec.Argv[0], cwd, s.spec.Env, s.spec.Node) })
	if f != nil {
		return f
	}
	if err := s.writeBaseline(); err != nil {
		return &failure{FailureLaunch, "cannot read checkpoint directory " + s.spec.CheckpointDir + " on node " + s.spec.Node + ": " + cause(err)}
	}
	return s.start(program, cwd)
}

func (s *shim) start(program, cwd string) *failure {
	unfit := func(what string, err error) *failure {
		return &failure{FailureUnfit, "cannot " + what + " on node " + s.spec.Node + ": " + cause(err)}
	}
	null, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return unfit("open /dev/null", err)
	}
	defer syscall.Close(null)
	output, ends, err := newOutput(s.log)
	if err != nil {
		return unfit("make pipes", err)
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
	if s.group, err = newCgroup(s.spec.Cgroup, s.spec.Limits); err != nil {
		return unfit("make the control group "+s.spec.Cgroup, err)
	}
	s.group.use(attr.Sys)
	if s.lease.Past(Boottime()) {
		return &failure{FailureNodeLost, "not started by its own node: " + s.lease.silence()}
	}
	if !s.spec.Walls.none() {
		s.thread = newThread()
		if s.thread.do(func() { err = s.spec.Walls.enter() }); err != nil {
			return unfit("put the task behind its walls", err)
		}
	}
	if err := markBegun("."); err != nil {
		return unfit("write the task directory", err)
	}
	if err := s.prepare(); err != nil {
		return unfit("give the files of the task to its user", err)
	}
	for _, end := range ends {
		s.spec.User.giveStream(end)
	}
	if !s.spec.User.none() {
		syscall.Umask(0o077) // the task inherits it
	}
	s.exit.Started = time.Now().UnixNano()
	pid, err := s.forkExec(program, s.spec.Argv, attr)
	if err != nil {
		s.exit.Started = 0
		switch {
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
			// Of the control group.
			errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EOPNOTSUPP):
			return unfit("start a process", err)
		}
		return &failure{FailureLaunch, "cannot run " + program + " on node " + s.spec.Node + ": " + s.whyNot(err)}
	}
	s.exit.Pid = pid
	s.output = output
	output.start()
	return nil
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
	return cause(err)
}

func checkCwd(cwd, node string) *failure {
	if cwd == "" {
		return nil
	}
	info, err := os.Stat(cwd)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &failure{FailureCwdMissing, "working directory " + cwd + " does not exist on node " + node +
			"; create it there, or submit with a cwd that exists on every node (a shared file system)"}
	case err != nil:
		return &failure{FailureCwdMissing, "working directory " + cwd + " cannot be used on node " + node + ": " + cause(err)}
	case !info.IsDir():
		return &failure{FailureCwdMissing, "working directory " + cwd + " is not a directory on node " + node}
	}
	// Access would ask for the user of this process, not for that of the task.
	fd, err := syscall.Open(cwd+"/.", oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return &failure{FailureCwdMissing, "working directory " + cwd + " cannot be entered on node " + node + ": " + cause(err)}
	}
	_ = syscall.Close(fd)
	return nil
}

// findProgram finds a program as a shell would, in the task's PATH.
func findProgram(name, cwd string, env []string, node string) (string, *failure) {
	if hasSlash(name) {
		path := name
		if name[0] != '/' && cwd != "" {
			path = cwd + "/" + name
		}
		if err := executable(path); err != nil {
			return "", &failure{FailureLaunch, "cannot run " + name + " on node " + node + ": " + cause(err)}
		}
		return path, nil
	}
	list := lookup(env, "PATH")
	var denied error
	for start := 0; start <= len(list); {
		end := start
		for end < len(list) && list[end] != ':' {
			end++
		}
		if dir := list[start:end]; dir != "" && dir[0] == '/' {
			err := executable(dir + "/" + name)
			if err == nil {
				return dir + "/" + name, nil
			}
			if errors.Is(err, os.ErrPermission) {
				denied = err
			}
		}
		start = end + 1
	}
	if denied != nil {
		return "", &failure{FailureLaunch, "cannot run " + name + " on node " + node + ": " + cause(denied)}
	}
	return "", &failure{FailureLaunch, "program " + strconv.Quote(name) + " was not found on node " + node + " (PATH=" + list + ")"}
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return errors.New("it is a directory")
	}
	if info.Mode().Perm()&0o111 == 0 {
		return errNotExecutable{}
	}
	return nil
}

type errNotExecutable struct{}

func (errNotExecutable) Error() string        { return "it is not executable (chmod +x)" }
func (errNotExecutable) Is(target error) bool { return target == os.ErrPermission }

func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if e := env[i]; len(e) > len(name) && e[:len(name)] == name && e[len(name)] == '=' {
			return e[len(name)+1:]
		}
	}
	return ""
}

func hasSlash(s string) bool {
	for i := range len(s) {
		if s[i] == '/' {
			return true
		}
	}
	return false
}

// cause returns the text of an error without the operation and path, which the message contains already.
func cause(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
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
