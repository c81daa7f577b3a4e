// Package embedded carries the shim as a small program of its own inside of mind, when mind was built with the tag
// shim_embedded (`make build` does). Without it the agent starts mind itself as the shim, which works as well and costs
// each launch about two milliseconds of processor time and a few MiB of memory more.
package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Install puts the program into dir, unless it is there, and returns its absolute path; "" when mind carries none, or
// nothing in dir may be executed. Its name tells its content, so that shims of an older version run on beside it.
func Install(dir string) (string, error) {
	if len(program) == 0 {
		return "", nil
	}
	sum := sha256.Sum256(program)
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("the folder of the shim: %w", err)
	}
	path := filepath.Join(dir, "shim-"+hex.EncodeToString(sum[:6]))
	switch info, err := os.Stat(path); {
	case err == nil && info.Size() == int64(len(program)):
		return executable(path), nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("looking for the shim: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of the shim: %w", err)
	}
	// Written aside and renamed: an agent that dies in between leaves no half of a program under the name.
	aside, err := os.CreateTemp(dir, "shim-*.new")
	if err != nil {
		return "", fmt.Errorf("writing the shim: %w", err)
	}
	defer os.Remove(aside.Name())
	_, err = aside.Write(program)
	if err = errors.Join(err, aside.Chmod(0o755), aside.Close()); err == nil {
		err = os.Rename(aside.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("writing the shim: %w", err)
	}
	return executable(path), nil
}

// executable is the path, unless its file system is mounted without the right to execute.
func executable(path string) string {
	if unix.Access(path, unix.X_OK) != nil {
		return ""
	}
	return path
}
