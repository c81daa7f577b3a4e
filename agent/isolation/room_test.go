package isolation

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/shim/confine"
)

func full(t *testing.T) Config {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes namespaces")
	}
	cfg := config(t, parent(t))
	cfg.Level = string(Full)
	return cfg
}

// inside runs a script in a room and returns its lines.
func inside(t *testing.T, room confine.Room, walls confine.Walls, script string) []string {
	t.Helper()
	thread := confine.NewThread()
	defer thread.Close()
	from, to, err := os.Pipe()
	require.NoError(t, err)
	defer from.Close()
	pid := 0
	thread.Do(func() {
		if err = room.Enter(); err == nil {
			err = walls.Enter()
		}
		if err == nil {
			attr := &syscall.ProcAttr{Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH")}, Files: []uintptr{0, to.Fd(), to.Fd()}}
			pid, err = syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, attr)
		}
	})
	_ = to.Close()
	defer walls.Close()
	defer room.End()
	require.NoError(t, err)
	text, err := io.ReadAll(from)
	require.NoError(t, err)
	_, _ = syscall.Wait4(pid, nil, 0, nil)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func TestRoom_aTask(t *testing.T) {
	cfg := full(t)
	base := t.TempDir()
	for _, dir := range []string{"data/tasks/t1", "data/tasks/t2", "data/outputs/a/1", "data/outputs/a/2", "data/outputs/b/1", "data/cache/x", "scratch", "sets", "elsewhere"} {
		require.NoError(t, os.MkdirAll(filepath.Join(base, dir), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(base, dir, "file"), []byte(dir+"\n"), 0o644))
	}
	data := filepath.Join(base, "data")
	own := filepath.Join(data, "tasks", "t1")
	require.NoError(t, os.WriteFile(filepath.Join(own, "metrics.jsonl"), nil, 0o644))
	key := filepath.Join(base, "elsewhere", "key")
	require.NoError(t, os.WriteFile(key, []byte("secret\n"), 0o600))
	late := filepath.Join(base, "elsewhere", "cache")
	p := private.New(data+"/cache", data, key, late)
	defer p.Close()
	cfg.DataDir, cfg.Private = data, p
	// The directories of the test lie in that for temporary files. Here it is one in which jobs work.
	cfg.Mounts = []string{os.TempDir() + ":" + os.TempDir() + ":rw", base + "/sets:/tmp/sets:ro"}
	i, err := Open(cfg)
	require.NoError(t, err)
	defer i.Close()
	require.Equal(t, Full, i.Level)

	require.NoError(t, os.Mkdir(late, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(late, "file"), nil, 0o644))
	read, write := []string{data + "/cache/x", data + "/outputs/a", base + "/sets"}, []string{data + "/outputs/a/1"}
	room, err := i.Room(Own{Dir: own, Files: []string{"metrics.jsonl", "events.jsonl"}, Read: read, Write: write, MemoryMB: 100})
	require.NoError(t, err)
	walls, err := i.Walls(read, append(write, own))
	require.NoError(t, err)
	lines := inside(t, room, walls, `cd `+base+`
echo 1 > `+own+`/metrics.jsonl && echo metrics
echo x 2>/dev/null > `+own+`/exit.json; echo record $?
ls data/tasks
ls data/outputs
cat data/outputs/a/2/file data/cache/x/file /tmp/sets/file
echo x 2>/dev/null > data/outputs/a/2/new; echo other $?
echo x > data/outputs/a/1/new && echo own
wc -c < elsewhere/key
ls elsewhere/cache
echo x 2>/dev/null > sets/new && echo scratch
echo x 2>/dev/null > /tmp/sets/new2; echo set $?
echo x 2>/dev/null > /var/tmp/mind-was-here && echo temporary
echo x 2>/dev/null > /etc/mind-was-here; echo etc $?
df -m /dev/shm | tail -1 | awk '{print $2}'
ls /run/user /run/lock
ls /run/systemd/private /run/docker.sock 2>/dev/null; echo services $?
echo /proc/[0-9]*`)
	require.Equal(t, []string{
		"metrics", "record 2", "t1", "a", "data/outputs/a/2", "data/cache/x", "sets", "other 2", "own", "0", "scratch", "set 2", "temporary", "etc 2", "50",
		"/run/lock:", "", "/run/user:", "services 2",
	}, lines[:len(lines)-1])
	require.Len(t, strings.Fields(lines[len(lines)-1]), 2, "the first process and its own")
	require.NoFileExists(t, "/var/tmp/mind-was-here")
	require.FileExists(t, data+"/outputs/a/1/new")
}

func TestRoom_itsMounts(t *testing.T) {
	cfg := full(t)
	cfg.Mounts, cfg.ShmMB = []string{"/var/tmp:/var/tmp:rw"}, 7
	i, err := Open(cfg)
	require.NoError(t, err)
	defer i.Close()
	room, err := i.Room(Own{Dir: cfg.DataDir, Write: []string{"/home/a/out", "/opt/out"}, Read: []string{"/datasets", "/home/a/set"}})
	require.NoError(t, err)
	of := func(to string) (found []confine.Mount) {
		for _, m := range room.Mounts {
			if m.To == to {
				found = append(found, m)
			}
		}
		return found
	}
	require.Equal(t, []confine.Mount{{Kind: confine.Memory, To: "/dev/shm", Options: "mode=1777,size=7m", Optional: true}}, of("/dev/shm"))
	require.Equal(t, []confine.Mount{{Kind: confine.Memory, To: "/tmp", Options: "mode=1777", Optional: true}}, of("/tmp"))
	require.Equal(t, []confine.Mount{{Kind: confine.Bound, From: "/var/tmp", To: "/var/tmp", Write: true}}, of("/var/tmp"))
	require.Empty(t, of("/home/a/out"), "the directory above it is for work, and root may be unable to reach it there")
	require.Empty(t, of("/home/a/set"))
	require.Empty(t, of("/datasets"))
	require.Equal(t, []confine.Mount{{Kind: confine.Bound, From: "/opt/out", To: "/opt/out", Write: true}}, of("/opt/out"))
	require.Empty(t, of("/usr"), "the system is read-only like all the rest")
	index := func(to string) int {
		return slices.IndexFunc(room.Mounts, func(m confine.Mount) bool { return m.To == to })
	}
	require.Less(t, index("/run"), index("/run/user"))
}

func TestOpen_full(t *testing.T) {
	cfg := full(t)
	hidden := t.TempDir()
	p := private.New(hidden)
	defer p.Close()
	cfg.Private = p
	for text, want := range map[string]string{
		"/scratch":                          "SOURCE:TARGET:ro",
		"/scratch:/scratch:wr":              "SOURCE:TARGET:ro",
		"scratch:/scratch:ro":               "no absolute path",
		"/scratch:/a/../b:ro":               "no absolute path",
		"/:/:rw":                            "nothing can be mounted at /",
		"/usr:/proc/sys:ro":                 "nothing can be mounted at /proc/sys",
		"/no/such/source:/mnt:ro":           "no such file",
		"/usr:/no/such/target:ro":           "no path on this machine",
		hidden + ":/tmp/x:ro":               "private directories",
		filepath.Dir(hidden) + ":/tmp/x:ro": "private directories",
	} {
		cfg.Mounts = []string{text}
		_, err := Open(cfg)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "isolation full: mounts has ")
	}
	for _, level := range []string{"", "cgroup", "none"} {
		cfg := config(t, parent(t))
		cfg.Level, cfg.ShmMB = level, 1
		_, err := Open(cfg)
		require.EqualError(t, err, "mounts and shm_mb need isolation: full")
	}
	require.NoError(t, Check("full"))
}

// A machine that cannot give the level does not start the agent.
func TestOpen_fullIsTried(t *testing.T) {
	cfg := full(t)
	cfg.DataDir = filepath.Join(t.TempDir(), "nothing")
	_, err := Open(cfg)
	require.ErrorContains(t, err, "isolation full: make namespaces as a task gets them")
	require.ErrorContains(t, err, cfg.DataDir)
}
