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

// prepare gives the user the files of the agent that it may write or read, and lets it reach those of the task: it passes
// through the directory, and can neither list nor change it.
func (s *shim) prepare() error {
	u := &s.spec.User
	if u.None() {
		return nil
	}
	for _, name := range s.spec.Given {
		if err := u.GiveTree(name); err != nil {
			return err
		}
	}
	return os.Chmod(".", 0o711)
}

// makeDirs makes the directories of the task.
func (s *shim) makeDirs() (dir string, err error) {
	for _, dir := range s.spec.Dirs {
		if err := s.spec.User.MakeDir(s.spec.Own, dir); err != nil {
			return dir, err
		}
	}
	return "", nil
}
