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

// Disk is a raw file that a machine has as a disk. It outlives its machines.
type Disk struct {
	Path string
	kit  *Kit
}

// NewDisk makes a disk of some MiB with an empty ext4 on it. The file takes no room for what was not written.
func (k *Kit) NewDisk(ctx context.Context, path string, megabytes int) (*Disk, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(int64(megabytes)<<20), f.Close()); err != nil {
		return nil, err
	}
	// All of its tables are made here, where that takes no time, and not by the kernel inside while a test runs.
	if out, err := exec.CommandContext(ctx, k.mkfs, "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", path).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("making a file system: %w: %s", err, out)
	}
	return &Disk{Path: path, kit: k}, nil
}

// Look is a disk as the next start will find it: the journal is replayed. It is a copy; the disk is left as it is.
type Look struct {
	path string
	kit  *Kit
	// Damage is what e2fsck finds wrong after the replay; empty: nothing. A power cut must not do that to ext4.
	Damage string
}

// Look copies the disk, whose machine must not run, into dir, and replays the journal of the copy.
func (d *Disk) Look(ctx context.Context, dir string) (*Look, error) {
	l := &Look{path: filepath.Join(dir, filepath.Base(d.Path)+".look"), kit: d.kit}
	if out, err := exec.CommandContext(ctx, "cp", "--sparse=always", "--reflink=auto", d.Path, l.path).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copying a disk: %w: %s", err, out)
	}
	// The journal first, and what was deleted while it was open, which is no damage: the kernel does both at its next start.
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

// fsckCorrected is the status of e2fsck when it had something to do and did it.
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

// Dump copies a folder of the disk (all of it: "/") into dir.
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
