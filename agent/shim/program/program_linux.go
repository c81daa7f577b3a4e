// Package program finds the program and the working directory of a task.
//
// Contract: Find and Cwd run with the rights, and in the view of the file system, that the task has. They return a sentence for
// the user of the job instead of an error.
package program

import (
	"errors"
	"os"
	"strconv"
	"syscall"
)

const oPath = 0x200000

// Cwd returns a sentence that says why a directory cannot be the working directory; empty: it can.
func Cwd(cwd, node string) string {
	if cwd == "" {
		return ""
	}
	info, err := os.Stat(cwd)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "working directory " + cwd + " does not exist on node " + node +
			"; create it there, or submit with a cwd that exists on every node (a shared file system)"
	case err != nil:
		return "working directory " + cwd + " cannot be used on node " + node + ": " + Cause(err)
	case !info.IsDir():
		return "working directory " + cwd + " is not a directory on node " + node
	}
	// Access would ask for the user of this process, not for that of the task.
	fd, err := syscall.Open(cwd+"/.", oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "working directory " + cwd + " cannot be entered on node " + node + ": " + Cause(err)
	}
	_ = syscall.Close(fd)
	return ""
}

// Find finds a program as a shell would, in the PATH of an environment. why is a sentence that says why there is none.
func Find(name, cwd string, env []string, node string) (path, why string) {
	if hasSlash(name) {
		path = name
		if name[0] != '/' && cwd != "" {
			path = cwd + "/" + name
		}
		if err := executable(path); err != nil {
			return "", "cannot run " + name + " on node " + node + ": " + Cause(err)
		}
		return path, ""
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
				return dir + "/" + name, ""
			}
			if errors.Is(err, os.ErrPermission) {
				denied = err
			}
		}
		start = end + 1
	}
	if denied != nil {
		return "", "cannot run " + name + " on node " + node + ": " + Cause(denied)
	}
	return "", "program " + strconv.Quote(name) + " was not found on node " + node + " (PATH=" + list + ")"
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

// Cause returns the text of an error without the operation and path, which a message contains already.
func Cause(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
