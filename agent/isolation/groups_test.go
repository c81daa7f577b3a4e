package isolation

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/devcluster/testrun"
)

func TestMain(m *testing.M) { os.Exit(testrun.Main(m.Run)) }

// parent makes a group in which the test may make groups, if the machine allows that.
func parent(t *testing.T) string {
	t.Helper()
	mount, err := mounted()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(mount, testrun.Name()+"-"+t.Name())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { removeEmpty(dir) })
	return dir
}

func config(t *testing.T, parent string) Config {
	return Config{Parent: parent, Node: "n1", DataDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
}

func TestOpen_groupsOfOneAgent(t *testing.T) {
	cfg := config(t, parent(t))
	i, err := Open(cfg)
	require.NoError(t, err)
	require.Equal(t, Cgroup, i.Level)
	require.Equal(t, cfg.DataDir, DataDir(i.Groups()))
	require.Equal(t, filepath.Join(i.Groups(), "t1"), i.Task("t1"))

	other := config(t, cfg.Parent)
	j, err := Open(other)
	require.NoError(t, err)
	require.NotEqual(t, i.Groups(), j.Groups(), "another cluster on this machine has a node of the same name")

	again, err := Open(cfg)
	require.NoError(t, err)
	require.Equal(t, i.Groups(), again.Groups(), "tasks that run find their group again")
	i.Close()
	j.Close()
	require.NoDirExists(t, i.Groups())
	require.NoDirExists(t, j.Groups())
}

func TestClose_keepsTheGroupOfATaskThatRuns(t *testing.T) {
	i, err := Open(config(t, parent(t)))
	require.NoError(t, err)
	task := i.Task("t1")
	require.NoError(t, os.Mkdir(task, 0o755))
	child := exec.Command("sleep", "1000")
	require.NoError(t, child.Start())
	require.NoError(t, os.WriteFile(filepath.Join(task, "cgroup.procs"), []byte(strconv.Itoa(child.Process.Pid)), 0))
	i.Close()
	require.DirExists(t, task)
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	i.Close()
	require.NoDirExists(t, i.Groups())
}

// An agent that was killed and whose data directory is gone never comes back for its group.
func TestOpen_removesGroupsOfAgentsThatAreGone(t *testing.T) {
	cfg := config(t, parent(t))
	gone := config(t, cfg.Parent)
	i, err := Open(gone)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(i.Task("t1"), 0o755))
	require.NoError(t, os.Remove(gone.DataDir))
	foreign := filepath.Join(cfg.Parent, "foreign")
	require.NoError(t, os.Mkdir(foreign, 0o755))
	_, err = Open(cfg)
	require.NoError(t, err)
	require.NoDirExists(t, i.Groups())
	require.DirExists(t, foreign)
}

func TestOpen_refuses(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(config(t, dir))
	require.ErrorContains(t, err, "is no directory of cgroup v2")
	cfg := config(t, "")
	cfg.Level = "walls"
	_, err = Open(cfg)
	require.ErrorContains(t, err, `isolation is "walls": it is one of none, cgroup`)
	cfg.Level, cfg.Parent = "none", dir
	_, err = Open(cfg)
	require.ErrorContains(t, err, "leave one of them out")
	cfg.Parent, cfg.Paths = "", []string{dir}
	_, err = Open(cfg)
	require.ErrorContains(t, err, "task_paths is set, and isolation is none")
	cfg.Paths = []string{"/"} // asks for nothing, as mind dev does
	i, err := Open(cfg)
	require.NoError(t, err)
	require.Equal(t, None, i.Level)
	require.Empty(t, i.Task("t1"))
}

// A cluster of a user who may make no groups starts, without walls.
func TestOpen_withoutGroups(t *testing.T) {
	cfg := config(t, "")
	without := errors.New("no groups here")
	cfg.find = func() (string, error) { return "", without }
	for _, paths := range [][]string{nil, {"/"}} {
		cfg.Paths = paths
		i, err := Open(cfg)
		require.NoError(t, err)
		require.Equal(t, None, i.Level)
	}
	cfg.Paths = []string{"/scratch"}
	_, err := Open(cfg)
	require.ErrorIs(t, err, without, "the operator asks for walls")
	cfg.Paths, cfg.Level = nil, "cgroup"
	_, err = Open(cfg)
	require.ErrorIs(t, err, without)
}
