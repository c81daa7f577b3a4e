package fitness

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func monitor(start func() error, dirs ...string) *Monitor {
	return New(Config{Dirs: dirs, Start: start, Log: slog.New(slog.DiscardHandler)})
}

// onDisk calls do on a separate thread that sees a small disk at dir.
func onDisk(t *testing.T, dir, options string, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a disk needs root")
	}
	done := make(chan bool)
	go func() {
		mounted := false
		defer func() { done <- mounted }()
		// The thread is not unlocked: it ends with its mount namespace.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("tmpfs", dir, "tmpfs", 0, options)
		}
		if mounted = err == nil; mounted {
			do()
		}
	}()
	if !<-done {
		t.Skip("no mount namespace here")
	}
}

func equal(t *testing.T, want, got string) {
	t.Helper()
	if want != got {
		t.Errorf("want %q, got %q", want, got)
	}
}

func TestMonitor_aFullDisk(t *testing.T) {
	dir := t.TempDir()
	onDisk(t, dir, "size=16m", func() {
		m := monitor(nil, dir)
		equal(t, "", m.Probe(nil))
		filler := filepath.Join(dir, "filler")
		_ = os.WriteFile(filler, make([]byte, 16<<20), 0o600)
		equal(t, "the disk of "+dir+" is full: less than 163 KiB are free", m.Probe(nil))
		equal(t, m.Why(), m.Probe(nil))
		_ = os.Truncate(filler, 16<<20-200<<10)
		equal(t, "the disk of "+dir+" is full: less than 163 KiB are free", m.Probe(nil))
		_ = os.Truncate(filler, 15<<20)
		equal(t, "", m.Probe(nil))
	})
}

func TestMonitor_aDiskWithoutInodes(t *testing.T) {
	dir := t.TempDir()
	onDisk(t, dir, "size=16m,nr_inodes=300", func() {
		m := monitor(nil, dir)
		equal(t, "", m.Probe(nil))
		for n := 'a'; ; n++ {
			if os.WriteFile(filepath.Join(dir, string(n)), nil, 0o600) != nil {
				break
			}
		}
		equal(t, "the disk of "+dir+" has no inodes left: fewer than 3 are free", m.Probe(nil))
		for n := 'a'; n < 'a'+20; n++ {
			_ = os.Remove(filepath.Join(dir, string(n)))
		}
		equal(t, "", m.Probe(nil))
	})
}

func TestMonitor_aReadOnlyDisk(t *testing.T) {
	dir := t.TempDir()
	onDisk(t, dir, "size=16m", func() {
		m := monitor(nil, dir)
		remount := func(flags uintptr) {
			if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|flags, "size=16m"); err != nil {
				t.Errorf("remount: %v", err)
			}
		}
		remount(unix.MS_RDONLY)
		equal(t, "it cannot mkdir "+filepath.Join(dir, probeFolder)+": read-only file system", m.Probe(nil))
		remount(0)
		equal(t, "", m.Probe(nil))
	})
}

func TestMonitor_aProcessThatDoesNotStart(t *testing.T) {
	var failure error
	m := monitor(func() error { return failure }, t.TempDir())
	failure = &os.PathError{Op: "fork/exec", Path: "shim", Err: syscall.EAGAIN}
	require.Empty(t, m.Probe(nil), "a fit node starts no process to see whether it can")
	require.Contains(t, m.Probe(errors.New("start shim: no")), "it cannot start a process: fork/exec shim: resource temporarily unavailable (the limit of processes")
	failure = nil
	require.Empty(t, m.Probe(nil))
}

// The error of a launch makes the node unfit for a moment even if the probe succeeds; then the node becomes fit by
// itself.
func TestMonitor_comesBackByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := monitor(func() error { return nil }, t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); m.Run(ctx) }()
		require.Contains(t, m.Probe(&os.PathError{Op: "write", Path: "/x/task", Err: syscall.EIO}), "it cannot write /x/task: input/output error")
		<-m.Changed()
		began := time.Now()
		<-m.Changed()
		require.Empty(t, m.Why())
		require.LessOrEqual(t, time.Since(began), 2*firstPause)
		cancel()
		<-done
	})
}
