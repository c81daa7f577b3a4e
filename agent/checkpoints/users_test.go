package checkpoints

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/safedir"
	"github.com/mindcoordinator/mind/agent/shim/confine"
)

// A job can name any directory as its checkpoint, and put a hard link to any file into it. The agent reads for it only files that the
// user of the job may read.
func TestFileOf_isReadWithTheRightsOfTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	top := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(top, "secret"), []byte("secret"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(top, "own"), []byte("own"), 0o600))
	require.NoError(t, os.Chown(filepath.Join(top, "own"), 4321, 4322))
	dir, err := safedir.Resolved(top)
	require.NoError(t, err)
	defer dir.Close()
	user := confine.User{UID: 4321, GID: 4322}
	k := &Keeper{cfg: Config{As: func(tenant string, f func()) error { return user.As(f) }}}
	file, err := k.fileOf("t", dir, "own")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	_, err = k.fileOf("t", dir, "secret")
	require.ErrorIs(t, err, fs.ErrPermission)
	k.cfg.As = nil
	file, err = k.fileOf("t", dir, "secret")
	require.NoError(t, err, "jobs run as the agent, which is root")
	require.NoError(t, file.Close())
}
