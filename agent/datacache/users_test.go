package datacache

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// The agent may read what the user of a job cannot even see.
func TestLocalSourcesAreLookedAtWithTheRightsOfTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	root := t.TempDir()
	for dir := root; ; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o711))
		if filepath.Base(dir) == testrun.Name() || dir == os.TempDir() {
			break
		}
	}
	closed := filepath.Join(root, "closed")
	write(t, filepath.Join(root, "open", "a"), "one")
	write(t, filepath.Join(root, "mixed", "a"), "one")
	write(t, filepath.Join(closed, "a"), "one")
	require.NoError(t, os.Chmod(closed, 0o700))
	write(t, filepath.Join(root, "secret"), "secret")
	require.NoError(t, os.Chmod(filepath.Join(root, "secret"), 0o600))
	require.NoError(t, os.Symlink(filepath.Join(closed, "a"), filepath.Join(root, "mixed", "link")))
	cfg := config(t)
	cfg.Sources.Roots = []string{root}
	user := confine.User{UID: 4321, GID: 4322}
	cfg.Sources.As = func(_ string, f func()) error { return user.As(f) }
	c := open(t, cfg)
	require.Equal(t, []string{"a"}, c.get(t, "t1", root+"/open", "a").Files)
	mixed := c.get(t, "t1", root+"/mixed", "a")
	require.Equal(t, []string{"a"}, mixed.Files)
	require.EqualValues(t, 3, mixed.Size, "a link to what the user cannot see does not count")
	c.refuse(t, root+"/secret", "node n1 cannot read it: give the user of the job read permission")
	for _, path := range []string{closed + "/a", closed + "/none", root + "/none"} {
		c.refuse(t, path, "node n1 has no such file that the user of the job can reach")
	}
}
