package isolation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/private"
)

func TestJobMounts(t *testing.T) {
	cfg := full(t)
	base := t.TempDir()
	for _, dir := range []string{"sets/a", "scratch/b", "data/tasks/t1", "elsewhere"} {
		require.NoError(t, os.MkdirAll(filepath.Join(base, dir), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(base, dir, "file"), []byte(dir+"\n"), 0o644))
	}
	data := filepath.Join(base, "data")
	require.NoError(t, os.Symlink(data, filepath.Join(base, "scratch", "link")))
	p := private.New(data)
	defer p.Close()
	cfg.DataDir, cfg.Private = data, p
	cfg.MountRoots = []string{base + "/sets:ro", base + "/scratch"}
	i, err := Open(cfg)
	require.NoError(t, err)
	defer i.Close()

	for text, why := range map[string]string{
		base + "/elsewhere:/tmp/x":           "only files and directories below",
		base + "/sets/a:/tmp/x:rw":           "is read-only for jobs",
		base + "/sets/none:/tmp/x":           "its source is not there",
		base + "/scratch/link/tasks:/tmp/x":  "only files and directories below", // it leads elsewhere
		base + "/sets/a:/no/such/place/here": "its target is no path",
		base + "/sets/a:/proc/x":             "nothing can be mounted at /proc/x",
		base + "/sets/a:/tmp":                "is in memory in each task",
		base + "/sets/a":                     "SOURCE:TARGET",
	} {
		_, err := i.JobMounts([]string{text})
		require.ErrorContains(t, err, why, text)
	}

	own := Own{Dir: filepath.Join(data, "tasks", "t1")}
	own.Mounts, err = i.JobMounts([]string{base + "/sets/a:/tmp/a", base + "/scratch/b:/mnt:rw"})
	require.NoError(t, err)
	room, err := i.Room(own)
	require.NoError(t, err)
	walls, err := i.Walls([]string{"/tmp/a"}, []string{"/mnt"})
	require.NoError(t, err)
	require.Equal(t, []string{"sets/a", "read-only", "scratch/b", "written"}, inside(t, room, walls, `
cat /tmp/a/file; (: > /tmp/a/new) 2>/dev/null || echo read-only; cat /mnt/file; : > /mnt/new && echo written`))
	require.FileExists(t, filepath.Join(base, "scratch/b/new"))

	// Where a target is missing, the agent would make it: not in what a job brings, which its user may not change.
	_, err = i.JobMounts([]string{base + "/scratch/b:/tmp/x:rw", base + "/sets/a:/tmp/x/made"})
	require.ErrorContains(t, err, "lies in that of another mount")
}

func TestJobMounts_whereThereAreNone(t *testing.T) {
	mounts, err := (&Isolation{Level: Cgroup}).JobMounts(nil)
	require.NoError(t, err)
	require.Empty(t, mounts)
	_, err = (&Isolation{Level: Cgroup}).JobMounts([]string{"/a:/b"})
	require.ErrorContains(t, err, "this one has cgroup: submit with --node-selector mind.io/isolation=full")
	i := &Isolation{Level: Full, room: &room{}}
	_, err = i.JobMounts([]string{"/usr:/mnt"})
	require.ErrorContains(t, err, "its operator sets mount_roots")
	for _, bad := range []string{"sets", "/usr:rx", "/no/such/root"} {
		_, err := parseRoots([]string{bad})
		require.ErrorContains(t, err, "mount_roots", bad)
	}
	_, err = Open(Config{Level: "cgroup", MountRoots: []string{"/usr"}})
	require.ErrorContains(t, err, "need isolation: full")
}

// Whether a path is there that jobs may not mount is not said.
func TestOfJob_sourcesElsewhereHaveOneAnswer(t *testing.T) {
	top := t.TempDir()
	require.NoError(t, os.MkdirAll(top+"/real/data", 0o755))
	require.NoError(t, os.Mkdir(top+"/secret", 0o700))
	require.NoError(t, os.Symlink(top+"/real", top+"/named"))
	roots, err := parseRoots([]string{top + "/named"})
	require.NoError(t, err)
	r := &room{roots: roots}
	for _, source := range []string{top + "/secret", top + "/none"} {
		_, err := r.ofJob(source + ":/mnt")
		require.EqualError(t, err, "the node lets jobs mount only files and directories below "+top+"/real (mount_roots)", source)
	}
	for _, source := range []string{top + "/named/none", top + "/real/none"} {
		_, err := r.ofJob(source + ":/mnt")
		require.EqualError(t, err, "its source is not there", source)
	}
}
