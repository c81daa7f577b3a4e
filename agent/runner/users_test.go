package runner

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// asUser returns the specification of a task that runs as a user without any rights, and a folder of the agent in which directories
// are made for it.
func asUser(t *testing.T, argv ...string) (spec shim.Spec, own string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	for dir := t.TempDir(); ; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o711))
		if filepath.Base(dir) == testrun.Name() || dir == os.TempDir() {
			break
		}
	}
	own = filepath.Join(t.TempDir(), "outputs")
	require.NoError(t, os.Mkdir(own, 0o711))
	spec = newSpec(argv...)
	spec.User = confine.User{UID: 4321, GID: 4322, Groups: []uint32{4323}}
	spec.Own, spec.Dirs, spec.Cwd = own, []string{filepath.Join(own, "tenant", "job_x")}, ""
	spec.Given = []string{"config.json", "upload", "nothing"}
	return spec, own
}

func TestUsers_aTaskHasItsUserAndItsFiles(t *testing.T) {
	spec, own := asUser(t, "sh", "-c", `
id -u; id -g; id -G
echo '{"step":1}' >> $DIR/metrics.jsonl && echo metrics
cat $DIR/config.json
echo more >> $DIR/upload/code/a && touch $DIR/upload/new && echo upload
cat $DIR/task; echo record $?
cat $DIR/*.log; echo log $?
ls $DIR; echo list $?
rm $DIR/metrics.jsonl; echo remove $?
touch $DIR/exit.json; echo exit $?
touch here && stat -c %a here
echo again > /dev/stdout
grep CapEff /proc/self/status
umask
touch ../foreign; echo beside $?`)
	dir := filepath.Join(t.TempDir(), "task")
	spec.Env = append(spec.Env, "DIR="+dir)
	spec.Walls.Scope = confine.LandlockVersion() > 0
	h, err := self.Start(dir, spec, func(dir string) error {
		code := filepath.Join(dir, "upload", "code")
		return errors.Join(
			os.WriteFile(filepath.Join(dir, "config.json"), []byte("config\n"), 0o600),
			os.MkdirAll(code, 0o755), os.WriteFile(filepath.Join(code, "a"), nil, 0o644),
		)
	})
	require.NoError(t, err)
	t.Cleanup(func() { h.Close(); shimGone(t, dir) })
	require.Zero(t, exited(t, h).Code)
	require.Equal(t, []string{
		"4321", "4322", "4322 4323", "metrics", "config", "upload", "record 1", "log 1", "list 2", "remove 1", "exit 1", "600", "again",
		"CapEff:\t0000000000000000", "0077", "beside 1",
	}, stdout(t, dir))
	info, err := os.Stat(filepath.Join(own, "tenant", "job_x"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// Directories outside of the agent's are made with the rights of the user, and links in the agent's are not followed.
func TestUsers_directoriesThatTheUserMayNotMake(t *testing.T) {
	spec, own := asUser(t, "true")
	foreign := t.TempDir()
	require.NoError(t, os.Chmod(foreign, 0o755))
	spec.Dirs = []string{filepath.Join(foreign, "out")}
	h, _ := start(t, spec)
	exit := exited(t, h)
	require.Equal(t, shim.FailureLaunch, exit.Failure)
	require.Contains(t, exit.Message, "cannot make directory")
	require.Contains(t, exit.Message, "permission denied")

	require.NoError(t, os.Mkdir(filepath.Join(own, "tenant"), 0o711))
	require.NoError(t, os.Symlink(foreign, filepath.Join(own, "tenant", "link")))
	spec.Dirs = []string{filepath.Join(own, "tenant", "link")}
	h, _ = start(t, spec)
	require.Zero(t, exited(t, h).Code, "it is there, for the user to read")
	info, err := os.Stat(foreign)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm(), "the target of a link is not given away")
	require.EqualValues(t, 0, info.Sys().(*syscall.Stat_t).Uid)

	// A link in a directory of the user, on the way to that of the task.
	kept := filepath.Join(foreign, "checkpoints")
	require.NoError(t, os.Mkdir(kept, 0o755))
	mine := filepath.Join(own, "tenant", "job_1")
	require.NoError(t, os.Mkdir(mine, 0o700))
	require.NoError(t, os.Symlink(foreign, filepath.Join(mine, "job_2")))
	require.NoError(t, os.Chown(mine, 4321, 4322))
	spec.Dirs = []string{filepath.Join(mine, "job_2", "checkpoints"), filepath.Join(mine, "job_2", "attempt-1")}
	h, _ = start(t, spec)
	require.Equal(t, shim.FailureLaunch, exited(t, h).Failure)
	require.NoDirExists(t, filepath.Join(foreign, "attempt-1"))
	info, err = os.Stat(kept)
	require.NoError(t, err)
	require.EqualValues(t, 0, info.Sys().(*syscall.Stat_t).Uid, "it is root's as before")

	// A directory that is the user's already stays so.
	again := filepath.Join(own, "tenant", "job_3")
	spec.Dirs = []string{again, filepath.Join(mine, "deeper", "down")}
	for range 2 {
		h, _ = start(t, spec)
		require.Zero(t, exited(t, h).Code)
	}
	info, err = os.Stat(again)
	require.NoError(t, err)
	require.EqualValues(t, 4321, info.Sys().(*syscall.Stat_t).Uid)
	require.DirExists(t, filepath.Join(mine, "deeper", "down"))
}

func TestUsers_aWorkingDirectoryThatTheUserMayNotEnter(t *testing.T) {
	spec, _ := asUser(t, "true")
	closed := t.TempDir()
	require.NoError(t, os.Chmod(closed, 0o700))
	spec.Cwd = closed
	h, _ := start(t, spec)
	exit := exited(t, h)
	require.Equal(t, shim.FailureCwdMissing, exit.Failure)
	require.Contains(t, exit.Message, "cannot be entered")
}

// A shim that had a task of one user starts the next one with another.
func TestUsers_ofTheTasksOfOneShim(t *testing.T) {
	spec, _ := asUser(t, "sh", "-c", "id -u; umask")
	s, parent := newSpare(t, 1)
	defer s.Close()
	require.NoError(t, os.Chmod(parent, 0o711))
	for i, want := range [][]string{{"4321", "0077"}, {"0", "0022"}, {"4321", "0077"}} {
		one := spec
		if i == 1 {
			one = newSpec(spec.Argv...)
		}
		dir := filepath.Join(parent, string(rune('a'+i)))
		h, err := s.Start(dir, one, nil)
		require.NoError(t, err)
		require.Zero(t, exited(t, h).Code)
		require.Equal(t, want, stdout(t, dir))
	}
}
