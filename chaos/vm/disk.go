package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Disk is a raw file that a machine uses as a disk. It outlives its machines.
type Disk struct {
	Path string
	kit  *Kit
}

// NewDisk makes a disk of a number of MiB with an empty ext4 on it, made with these options of mkfs.ext4. The file takes only the space
// that was written.
func (k *Kit) NewDisk(ctx context.Context, path string, megabytes int, options ...string) (*Disk, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(int64(megabytes)<<20), f.Close()); err != nil {
		return nil, err
	}
	// All tables are made here, which is fast, and not by the kernel inside during a test.
	args := append([]string{"-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"}, options...)
	if out, err := exec.CommandContext(ctx, k.mkfs, append(args, path)...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("making a file system: %w: %s", err, out)
	}
	return &Disk{Path: path, kit: k}, nil
}

// Look is a copy of a disk in the state that the next start will find, with the journal replayed. The disk itself is
// not changed.
type Look struct {
	path string
	kit  *Kit
	// Damage has the errors that e2fsck finds after the replay; empty: none. A power cut must not damage ext4.
	Damage string
}

// Look copies the disk, whose machine must not run, into dir, and replays the journal of the copy.
func (d *Disk) Look(ctx context.Context, dir string) (*Look, error) {
	l := &Look{path: filepath.Join(dir, filepath.Base(d.Path)+".look"), kit: d.kit}
	if out, err := exec.CommandContext(ctx, "cp", "--sparse=always", "--reflink=auto", d.Path, l.path).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copying a disk: %w: %s", err, out)
	}
	// This replays the journal, and removes files that were deleted while they were open, which is no damage: the
	// kernel does both at its next start.
	if out, code, err := l.check(ctx, "-p"); err != nil || code > fsckCorrected {
		return l, errors.Join(err, fmt.Errorf("replaying the journal of a disk: status %d: %s", code, out))
	}
	out, code, err := l.check(ctx, "-f", "-n")
	if err != nil {
		return l, err
	}
	if code != 0 {
		l.Damage = out
	}
	return l, nil
}

// fsckCorrected is the exit status of e2fsck after it has corrected errors.
const fsckCorrected = 1

func (l *Look) check(ctx context.Context, flags ...string) (string, int, error) {
	cmd := exec.CommandContext(ctx, l.kit.e2fsck, append(flags, l.path)...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", 0, fmt.Errorf("looking at a disk: %w", err)
	}
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode(), nil
}

// Dump copies a folder of the disk ("/" for all of it) into dir.
func (l *Look) Dump(ctx context.Context, from, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, l.kit.debugfs, "-R", fmt.Sprintf("rdump %s %s", from, dir), l.path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("reading %s of a disk: %w: %s", from, err, out)
	}
	return nil
}

// Remove removes the copy.
func (l *Look) Remove() error { return os.Remove(l.path) }
