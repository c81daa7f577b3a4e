package disk

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/isolation/disk/quotatest"
)

const user = 61001

// folder makes a directory of the user.
func folder(t *testing.T, path ...string) string {
	t.Helper()
	dir := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.Chown(dir, user, user))
	return dir
}

// writes writes a file of so many MiB as the user, and returns what the program says if it cannot. Root is held to no quota.
func writes(t *testing.T, path string, mb string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", `dd if=/dev/zero of="$1" bs=1M count="$2"`, "sh", path, mb)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	if out, err := cmd.CombinedOutput(); err != nil {
		return string(out)
	}
	return ""
}

// refused is the end of a write beyond a quota; xfs says the second.
const refused = `uota exceeded|No space left on device`

// base returns a directory of jobs, to which the user can pass.
func base(t *testing.T) string {
	t.Helper()
	base := filepath.Join(quotatest.Dir(t), "outputs")
	require.NoError(t, os.Mkdir(base, 0o755))
	for dir := filepath.Dir(base); dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			require.NoError(t, os.Chmod(dir, info.Mode().Perm()|0o111))
		}
	}
	return base
}

func TestQuotas_boundAJob(t *testing.T) {
	base := base(t)
	q, err := Open(base, 8)
	require.NoError(t, err)
	t.Cleanup(q.Close)
	one, checkpoints := folder(t, base, "tenant", "a.attempt-1"), folder(t, base, "tenant", "a.checkpoints")
	other := folder(t, base, "tenant", "b.attempt-1")
	task := folder(t, filepath.Dir(base), "task")
	before := folder(t, task, "upload", "in")
	require.NoError(t, q.Bound("a", []string{one, checkpoints}, []string{filepath.Join(task, "upload"), filepath.Join(task, "missing")}))
	require.NoError(t, q.Bound("b", []string{other}, nil))

	require.Empty(t, writes(t, filepath.Join(one, "file"), "5"))
	require.Zero(t, q.Full([]string{one, checkpoints}))
	require.Regexp(t, refused, writes(t, filepath.Join(checkpoints, "file"), "5"), "both directories have one quota")
	require.EqualValues(t, 8, q.Full([]string{one, checkpoints}))
	require.Regexp(t, refused, writes(t, filepath.Join(before, "file"), "1"), "what the task has of the agent counts, too")
	require.Empty(t, writes(t, filepath.Join(other, "file"), "5"), "another job has its own quota")
	require.Zero(t, q.Full([]string{other}))
	free := folder(t, filepath.Dir(base), "elsewhere")
	require.Empty(t, writes(t, filepath.Join(free, "file"), "16"), "what is not the job's is not bound")
	require.Zero(t, q.Full([]string{free}))

	// Another agent goes on with the project of the job, in its next attempt.
	again, err := Open(base, 9)
	require.NoError(t, err)
	t.Cleanup(again.Close)
	two := folder(t, base, "tenant", "a.attempt-2")
	require.NoError(t, again.Bound("a", []string{two, checkpoints}, nil))
	require.Regexp(t, refused, writes(t, filepath.Join(two, "file"), "3"))
	require.EqualValues(t, 9, again.Full([]string{two}), "the setting is the newer one")
	require.NoError(t, os.RemoveAll(one))
	require.Empty(t, writes(t, filepath.Join(two, "file"), "3"))
}

// A project whose job is gone is used again, and one with files is not.
func TestQuotas_projects(t *testing.T) {
	base := base(t)
	q, err := Open(base, 8)
	require.NoError(t, err)
	t.Cleanup(q.Close)
	project := func(dir string) uint32 {
		f, err := os.Open(dir)
		require.NoError(t, err)
		defer f.Close()
		n, err := projectOf(f)
		require.NoError(t, err)
		return n
	}
	one, two := folder(t, base, "one"), folder(t, base, "two")
	require.NoError(t, q.Bound("job", []string{one}, nil))
	require.NoError(t, q.Bound("job", []string{two}, nil))
	require.Equal(t, project(one)+1, project(two), "they have nothing in common but the name")
	taken := project(one)
	require.NoError(t, os.RemoveAll(one))
	gone := func() bool {
		usage, err := q.usage(taken)
		return err == nil && usage.inodes == 0
	}
	require.Eventually(t, gone, time.Minute, time.Millisecond, "xfs counts files some time after their end")
	three := folder(t, base, "three")
	require.NoError(t, q.Bound("job", []string{three}, nil))
	require.Equal(t, taken, project(three))
}

// A job cannot have its quota put on the files of others.
func TestQuotas_followNoLinks(t *testing.T) {
	base := base(t)
	q, err := Open(base, 8)
	require.NoError(t, err)
	t.Cleanup(q.Close)
	elsewhere := folder(t, filepath.Dir(base), "elsewhere", "deep")
	require.NoError(t, os.Symlink(filepath.Dir(elsewhere), filepath.Join(base, "link")))
	require.NoError(t, q.Bound("job", []string{filepath.Join(base, "link"), filepath.Join(base, "link", "deep"), elsewhere, base}, nil))
	for _, dir := range []string{elsewhere, filepath.Dir(elsewhere), base} {
		f, err := os.Open(dir)
		require.NoError(t, err)
		defer f.Close()
		project, err := projectOf(f)
		require.NoError(t, err)
		require.Zero(t, project, dir)
	}
}

func TestOpen_saysWhatIsMissing(t *testing.T) {
	if os.Getenv(quotatest.DirEnv) != "" {
		t.Skip("the disk of this machine's temporary files may hold quotas")
	}
	_, err := Open("/dev/shm", 8)
	require.ErrorContains(t, err, "the disk of /dev/shm does not hold project quotas: mount it with prjquota")
	_, err = Open(filepath.Join(t.TempDir(), "missing"), 8)
	require.ErrorIs(t, err, os.ErrNotExist)
}
