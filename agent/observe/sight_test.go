package observe

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// The task has a directory in memory at a path at which the machine has one, with files of others.
func TestPlaces_haveOnlyWhatTheTaskSees(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"tmp/machine", "tmp/out", "srv/run"} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, dir), 0o755))
	}
	p := placesOf(shim.Spec{Cwd: top, Room: confine.Room{Mounts: []confine.Mount{
		{Kind: confine.Memory, To: top + "/tmp"},
		{Kind: confine.Bound, From: top + "/tmp/out", To: top + "/tmp/out", Write: true},
		{Kind: confine.Bound, From: top + "/srv/run", To: top + "/srv"},
	}}}, nil)
	for path, sees := range map[string]bool{"tmp/out": true, "srv/run": false, "tmp": false, "tmp/machine": false} {
		left := 100
		_, err := manifestWithin(t.Context(), p, filepath.Join(top, path), &left)
		if sees {
			require.NoError(t, err, path)
		} else {
			require.ErrorIs(t, err, errNotWithin, path)
		}
	}
}

// The agent may read what the user of the task may not even see.
func TestPlaces_areLookedAtWithTheRightsOfTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	top := t.TempDir()
	for dir := top; ; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
		if filepath.Base(dir) == testrun.Name() || dir == os.TempDir() {
			break
		}
	}
	require.NoError(t, os.MkdirAll(top+"/open/closed", 0o755))
	require.NoError(t, os.WriteFile(top+"/open/a", []byte("a"), 0o644))
	require.NoError(t, os.WriteFile(top+"/open/closed/secret", []byte("secret"), 0o644))
	p := placesOf(shim.Spec{Cwd: top, User: confine.User{UID: 4321, GID: 4322}}, nil)
	left := 100
	_, err := manifestWithin(t.Context(), p, top+"/open", &left)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(top+"/open/closed", 0o700))
	for _, path := range []string{"/open", "/open/closed"} {
		_, err = manifestWithin(t.Context(), p, top+path, &left)
		require.ErrorIs(t, err, os.ErrPermission, path)
	}
	p.user = confine.User{}
	_, err = manifestWithin(t.Context(), p, top+"/open", &left)
	require.NoError(t, err, "tasks have the user of the agent")
}
