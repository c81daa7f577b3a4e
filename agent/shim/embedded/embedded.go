// Package embedded contains the shim as a small separate program, if mind was built with the tag shim_embedded (as
// `make build` does). Without it the agent starts mind itself as the shim, which costs each launch about two more
// milliseconds of processor time and a few more MiB of memory.
package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/durable"
)

// Install puts the program into dir, unless it is there, and returns its absolute path. It returns "" if mind does not
// contain the program, or if files in dir may not be executed. Its name contains a hash, so that shims of older
// versions keep running.
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
	switch there, err := os.ReadFile(path); {
	case bytes.Equal(there, program):
		return executable(path), nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("looking for the shim: %w", err)
	}
	if err := durable.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of the shim: %w", err)
	}
	// After a power cut the name must not belong to an incomplete program: no later agent would write it again.
	if err := durable.WriteFile(path, program, 0o755); err != nil {
		return "", fmt.Errorf("writing the shim: %w", err)
	}
	return executable(path), nil
}

// executable returns the path, or "" if its file system is mounted without the right to execute.
func executable(path string) string {
	if unix.Access(path, unix.X_OK) != nil {
		return ""
	}
	return path
}
