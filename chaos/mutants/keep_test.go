package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// TestMain makes the test binary a keeper if it is called as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == keepWord {
		os.Exit(keep(os.Args[2:]))
	}
	os.Exit(testrun.Main(m.Run))
}

// orphans is a script that starts a process in its own session, with a child, and writes down their pids.
const orphans = `(setsid sh -c 'sleep 1000 & echo $! $$ > pids.new; mv pids.new pids; wait' &)
until [ -e pids ]; do sleep 0.01; done; `

func requireGone(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "pids"))
	require.NoError(t, err)
	pids := strings.Fields(string(text))
	require.Len(t, pids, 2)
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		require.NoError(t, err)
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "it runs on")
	}
}

func TestKept_leavesNothing(t *testing.T) {
	t.Run("that fails", func(t *testing.T) {
		dir := t.TempDir()
		output, err := kept(t.Context(), dir, "sh", "-c", orphans+"echo --- FAIL: TestA; exit 3")
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 3, exit.ExitCode())
		require.Equal(t, "--- FAIL: TestA\n", output)
		requireGone(t, dir)
	})
	t.Run("that is killed", func(t *testing.T) {
		dir := t.TempDir()
		output, err := kept(t.Context(), dir, "sh", "-c", orphans+"kill -9 $$")
		require.Error(t, err)
		require.Equal(t, "signal: killed\n", output)
		requireGone(t, dir)
	})
	t.Run("that does not end", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "begun"), 0o600))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _ = os.ReadFile(filepath.Join(dir, "begun"))
			cancel()
		}()
		_, err := kept(ctx, dir, "sh", "-c", orphans+"echo > begun; exec sleep 1000")
		require.Error(t, err)
		requireGone(t, dir)
	})
	t.Run("and nothing but what is its own is ended", func(t *testing.T) {
		other := exec.Command("sleep", "1000")
		require.NoError(t, other.Start())
		_, err := kept(t.Context(), t.TempDir(), "true")
		require.NoError(t, err)
		require.NoError(t, other.Process.Signal(syscall.Signal(0)))
		require.NoError(t, other.Process.Kill())
		_ = other.Wait()
	})
}
