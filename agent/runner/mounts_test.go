package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/shim/confine"
)

// A mount must not lead a user past directories that the user cannot pass.
func TestSources_areThoseThatTheUserMayRead(t *testing.T) {
	spec, _ := asUser(t, "cat", "/mnt/file")
	dir := t.TempDir()
	open, closed := filepath.Join(dir, "open"), filepath.Join(dir, "closed", "inner")
	for _, d := range []string{open, closed} {
		require.NoError(t, os.MkdirAll(d, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(d, "file"), []byte("read\n"), 0o644))
	}
	require.NoError(t, os.Chmod(filepath.Dir(closed), 0o700))
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		require.NoError(t, os.Chmod(d, 0o755))
	}
	run := func(source string) (shim.Exit, []string) {
		s := spec
		s.Room = openRoom()
		s.Room.Mounts = append(s.Room.Mounts, confine.Mount{Kind: confine.Bound, From: source, To: "/mnt"})
		s.Sources = []string{source}
		h, at := start(t, s)
		return exited(t, h), stdout(t, at)
	}
	exit, said := run(open)
	require.Zero(t, exit.Code, exit.Message)
	require.Equal(t, []string{"read"}, said)
	exit, _ = run(closed)
	require.Equal(t, shim.FailureLaunch, exit.Failure)
	require.Equal(t, "cannot mount "+closed+" on node n1: permission denied", exit.Message)
	exit, _ = run(filepath.Join(dir, "none"))
	require.Equal(t, shim.FailureLaunch, exit.Failure)
	require.Contains(t, exit.Message, "no such file")
}
