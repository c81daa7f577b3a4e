package isolation

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/shim/confine"
)

// tree makes a directory that stands for the system's, with a private directory and a file beside it.
func tree(t *testing.T) (top, hidden string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	hidden = filepath.Join(top, "lib", "mind", "n1")
	require.NoError(t, os.MkdirAll(filepath.Join(hidden, "tasks"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(top, "lib", "other"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(top, "log"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(top, "lib", "file"), nil, 0o644))
	require.NoError(t, os.Symlink(hidden, filepath.Join(top, "lib", "way")))
	return top, hidden
}

func TestVisible_leavesOutPrivatePaths(t *testing.T) {
	top, hidden := tree(t)
	p := private.New(hidden)
	defer p.Close()
	require.Equal(t, []string{filepath.Join(top, "lib", "file"), filepath.Join(top, "lib", "other"), filepath.Join(top, "log")}, visible(p, top))
	require.Equal(t, []string{filepath.Join(top, "log")}, visible(p, filepath.Join(top, "log")), "as a whole: new files in it are seen")
	require.Empty(t, visible(p, hidden))
}

func TestChoosePaths(t *testing.T) {
	none := private.New()
	p, exposed := choosePaths(none, []string{"/home", "/usr", "/dev", "/scratch"}, nil)
	require.Empty(t, exposed)
	require.Equal(t, []string{"/usr"}, p.read)
	require.Subset(t, p.write, []string{"/home", "/scratch", "/dev/null", "/dev/shm", "/var/tmp"})
	require.NotContains(t, p.write, "/dev")
	p, exposed = choosePaths(none, []string{"/home", "/usr", "/scratch"}, []string{"/scratch/jobs"})
	require.Empty(t, exposed)
	require.Equal(t, Paths{read: []string{"/usr"}, write: []string{"/scratch/jobs"}}, p)

	keys := private.New("/etc/hostname")
	defer keys.Close()
	p, exposed = choosePaths(keys, []string{"/etc"}, []string{"/scratch"})
	require.Empty(t, exposed)
	require.Equal(t, []string{"/etc"}, p.read, "files there are replaced while tasks run")

	top, hidden := tree(t)
	secret := private.New(hidden)
	defer secret.Close()
	_, exposed = choosePaths(secret, []string{top, "/usr"}, nil)
	require.Equal(t, []string{top}, exposed, "jobs make files there")
}

func TestOpen_walls(t *testing.T) {
	if confine.LandlockVersion() == 0 {
		t.Skip("the kernel has no Landlock")
	}
	_, hidden := tree(t) // in the directory for temporary files, where jobs work
	p := private.New(hidden)
	defer p.Close()
	var said bytes.Buffer
	cfg := config(t, parent(t))
	cfg.Private, cfg.Log = p, slog.New(slog.NewTextHandler(&said, nil))
	i, err := Open(cfg)
	require.NoError(t, err)
	walls, err := i.Walls(nil, []string{"/own"})
	require.NoError(t, err)
	require.Contains(t, walls.Write, "/own")
	require.Contains(t, walls.Write, "/tmp", "it cannot be hidden there, and the system still is")
	require.Contains(t, walls.Read, "/usr")
	require.Contains(t, said.String(), "JOBS REACH THE DIRECTORIES OF THE AGENT")

	// With a list, the directories of the agent are hidden, wherever they are.
	scratch := filepath.Join(t.TempDir(), "scratch")
	require.NoError(t, os.Mkdir(scratch, 0o755))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(scratch, link))
	cfg.Paths = []string{link}
	i, err = Open(cfg)
	require.NoError(t, err)
	walls, err = i.Walls([]string{"/data/1"}, []string{"/own"})
	require.NoError(t, err)
	require.Subset(t, walls.Read, []string{"/usr", "/data/1"})
	require.Subset(t, walls.Write, []string{"/own", scratch, "/dev/null"})
	require.NotContains(t, walls.Write, "/tmp")

	cfg.Paths = []string{filepath.Dir(hidden)}
	_, err = Open(cfg)
	require.ErrorContains(t, err, "has private directories in it")
	cfg.Paths = []string{"/no/such/directory"}
	_, err = Open(cfg)
	require.ErrorContains(t, err, "task_paths: ")
	cfg.Paths = []string{"scratch"}
	_, err = Open(cfg)
	require.ErrorContains(t, err, `task_paths has "scratch"`)

	cfg.Paths = []string{"/"}
	i, err = Open(cfg)
	require.NoError(t, err)
	walls, err = i.Walls(nil, []string{"/own"})
	require.NoError(t, err)
	require.Equal(t, confine.Walls{Scope: true}, walls, "the operator wants no walls around paths: containers in jobs mount")
}
