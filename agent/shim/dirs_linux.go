package shim

import (
	"os"
	"syscall"
)

// ownUmask is the umask that this process was started with; negative: it was not asked for yet.
var ownUmask = -1

// resetUmask undoes what an earlier task of this process needed.
func resetUmask() {
	if now := syscall.Umask(0o022); ownUmask < 0 {
		ownUmask = now
	}
	syscall.Umask(ownUmask)
}

// prepare gives the user those files in the directory of the task that it may write or read, and lets it reach them: it passes
// through the directory, and can neither list nor change it.
func (s *shim) prepare() error {
	u := &s.spec.User
	if u.None() {
		return nil
	}
	for _, name := range []string{MetricsFile, EventsFile} {
		if err := u.GiveFile(name); err != nil {
			return err
		}
	}
	for _, name := range s.spec.Given {
		if err := u.GiveTree(name); err != nil {
			return err
		}
	}
	return os.Chmod(".", 0o711)
}

// makeDirs makes the directories of the task. As long as a path leads through directories of the agent, the agent makes what is
// missing and gives the last one to the user; what lies elsewhere, or in a directory of the user, the user makes. So nobody gets what
// the user could not have made: a task may put a link into any directory of its user.
func (s *shim) makeDirs() (dir string, err error) {
	u := &s.spec.User
	for _, dir := range s.spec.Dirs {
		if u.None() {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return dir, err
			}
			continue
		}
		made := false
		if within(dir, s.spec.Own) {
			if made, err = u.MakeOwn(s.spec.Own, dir[len(s.spec.Own)+1:]); err != nil {
				return dir, err
			}
		}
		if made {
			continue
		}
		if failed := u.As(func() { err = os.MkdirAll(dir, 0o700) }); failed != nil || err != nil {
			if failed != nil {
				err = failed
			}
			return dir, err
		}
	}
	return "", nil
}

// within reports whether a clean path lies in a directory.
func within(path, dir string) bool {
	return dir != "" && len(path) > len(dir) && path[:len(dir)] == dir && path[len(dir)] == '/'
}
