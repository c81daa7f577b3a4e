package private

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func mkdir(t *testing.T, parts ...string) string {
	t.Helper()
	dir := filepath.Join(parts...)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

func TestPaths_holdWhatLiesInThem(t *testing.T) {
	top := t.TempDir()
	data, other := mkdir(t, top, "data"), mkdir(t, top, "other")
	alpha, beta := mkdir(t, data, "outputs/alpha/job_1.checkpoints/c1"), mkdir(t, data, "outputs/beta/job_2.checkpoints")
	key := filepath.Join(mkdir(t, top, "keys"), "agent.key")
	require.NoError(t, os.WriteFile(key, nil, 0o600))
	p := New(data, key, "", filepath.Join(top, "missing"))
	defer p.Close()
	for path, want := range map[string]struct{ holds, reaches bool }{
		alpha:                            {true, true},
		data:                             {true, true},
		filepath.Join(data, "not/there"): {true, true},
		beta:                             {false, false},
		filepath.Join(beta, "c1"):        {false, false},
		filepath.Dir(beta):               {true, true},
		other:                            {false, false},
		top:                              {false, true},
		"/":                              {false, true},
		filepath.Dir(key):                {false, true},
		key:                              {true, true},
		data + "x":                       {false, false},
	} {
		require.Equal(t, want.holds, p.Holds(path, beta), "Holds %s", path)
		require.Equal(t, want.reaches, p.Reaches(path, beta), "Reaches %s", path)
	}
	require.False(t, (*Paths)(nil).Holds("/"))
	require.False(t, New().Reaches("/"))
}

// A private path that is configured through a link is also private by its real name.
func TestPaths_areResolved(t *testing.T) {
	top := t.TempDir()
	real := mkdir(t, top, "real")
	require.NoError(t, os.Symlink(real, filepath.Join(top, "link")))
	p := New(filepath.Join(top, "link"))
	defer p.Close()
	require.True(t, p.Holds(filepath.Join(real, "x")))
}

// A bind mount of a private directory, or of one above it, is as private as the directory, also below a job's own
// directory.
func TestPaths_areSeenThroughBindMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("bind mounts need root")
	}
	top := t.TempDir()
	data := mkdir(t, top, "data")
	beta := mkdir(t, data, "outputs/beta/job_2.checkpoints")
	alpha := mkdir(t, data, "outputs/alpha/job_1.checkpoints")
	mkdir(t, alpha, "c1")
	bound, above, inOwn, second := mkdir(t, top, "bound"), mkdir(t, top, "above"), mkdir(t, beta, "c2/sub"), mkdir(t, top, "second")

	// The thread is not unlocked: it ends with its mount namespace.
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
			t.Logf("no mount namespace: %v", err)
			return
		}
		p := New(data)
		defer p.Close()
		check := func(want bool, path string) {
			t.Helper()
			if got := p.Reaches(path, beta); got != want {
				t.Errorf("Reaches(%s) = %v", path, got)
			}
		}
		check(false, bound)
		check(false, filepath.Dir(inOwn))
		mount := func(what, where string) {
			if err := unix.Mount(what, where, "", unix.MS_BIND, ""); err != nil {
				t.Errorf("mount %s: %v", where, err)
			}
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Errorf("make the mounts private: %v", err)
		}
		mount(alpha, bound)
		mount(top, above)
		mount(alpha, inOwn)
		check(true, bound)
		check(true, filepath.Join(bound, "c1"))
		check(true, above)
		check(true, filepath.Join(above, "data/outputs/alpha/job_1.checkpoints/c1"))
		check(true, filepath.Dir(inOwn))
		check(true, inOwn)
		check(false, filepath.Join(beta, "c1"))
		check(false, second)
		if err := unix.Unmount(bound, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
		check(false, bound)
		// A file system that is mounted in the data directory is also private elsewhere.
		if err := unix.Mount("tmpfs", alpha, "tmpfs", 0, ""); err != nil {
			t.Errorf("mount a tmpfs: %v", err)
			return
		}
		mount(alpha, second)
		check(true, second)
	}()
	<-done
}

func TestResolve(t *testing.T) {
	top := t.TempDir()
	real := mkdir(t, top, "real")
	require.NoError(t, os.Symlink(real, filepath.Join(top, "link")))
	require.NoError(t, os.Symlink(filepath.Join(top, "nowhere"), filepath.Join(top, "broken")))
	got, err := Resolve(filepath.Join(top, "link/a/../b/c"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(real, "b/c"), got)
	_, err = Resolve(filepath.Join(top, "broken/x"))
	require.Error(t, err, "nobody knows where it will lead")
}

func TestParse(t *testing.T) {
	table, err := parse("36 35 98:0 /mnt1 /mnt/my\\040data rw,noatime shared:1 - ext3 /dev/root rw\n")
	require.NoError(t, err)
	require.Equal(t, []mount{{36, spot{"98:0", "/mnt1"}, "/mnt/my data"}}, table)
	for _, text := range []string{"36 35 98:0 /\n", "x 35 98:0 / / rw\n"} {
		_, err := parse(text)
		require.Error(t, err)
	}
}

// The places of private paths are kept for a moment. That must not show one that was made, or mounted, meanwhile.
func TestPaths_madeLater(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	there, later := filepath.Join(dir, "there"), filepath.Join(dir, "later")
	require.NoError(t, os.Mkdir(there, 0o700))
	p := New(there, later)
	defer p.Close()
	require.True(t, p.Holds(filepath.Join(there, "key")))
	require.False(t, p.Holds(later), "it does not exist")
	require.NoError(t, os.Mkdir(later, 0o700))
	require.True(t, p.Holds(filepath.Join(later, "key")))
}
