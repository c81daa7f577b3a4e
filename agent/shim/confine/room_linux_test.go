package confine

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// lodger is a thread in a room.
type lodger struct {
	t      *testing.T
	room   Room
	thread *Thread
}

func lodge(t *testing.T, mounts ...Mount) *lodger {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes namespaces")
	}
	l := &lodger{t: t, room: Room{Mounts: mounts}, thread: NewThread()}
	t.Cleanup(func() { l.thread.Close() })
	var err error
	l.thread.Do(func() { err = l.room.Enter() })
	require.NoError(t, err)
	t.Cleanup(l.room.End)
	return l
}

// start starts a script in the room, whose output goes to a file.
func (l *lodger) start(script string, out *os.File) (pid int) {
	l.t.Helper()
	null, err := os.Open(os.DevNull)
	require.NoError(l.t, err)
	defer null.Close()
	attr := &syscall.ProcAttr{Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH")}, Files: []uintptr{null.Fd(), out.Fd(), out.Fd()}}
	l.thread.Do(func() { pid, err = syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, attr) })
	require.NoError(l.t, err)
	return pid
}

// run runs a script in the room and returns its lines.
func (l *lodger) run(script string) (lines []string) {
	l.t.Helper()
	from, to, err := os.Pipe()
	require.NoError(l.t, err)
	defer from.Close()
	pid := l.start(script, to)
	require.NoError(l.t, to.Close())
	text, err := io.ReadAll(from)
	require.NoError(l.t, err)
	wait(l.t, pid)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func wait(t *testing.T, pid int) (status syscall.WaitStatus) {
	t.Helper()
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		require.NoError(t, err)
		return status
	}
}

func TestRoom_aProcessSeesThoseOfItsRoomAlone(t *testing.T) {
	l := lodge(t, Mount{Kind: Memory, To: "/tmp", Options: "mode=1777,size=1m"})
	lines := l.run(`cd /proc; echo [0-9]*; cat 1/comm; echo $PPID; kill -9 1; kill -TERM 1; cat 1/comm; cat 1/environ; echo x > /proc/sys/kernel/domainname; (sleep 0 &); echo done`)
	fields := strings.Fields(lines[0])
	require.Len(t, fields, 2, "all: %v", lines)
	require.Equal(t, "1", fields[0])
	require.Equal(t, []string{"mind-init", "0", "mind-init"}, lines[1:4], "the parent of its first program is outside of the room")
	require.Equal(t, "done", lines[len(lines)-1])
	require.Contains(t, strings.Join(lines, "\n"), "Read-only file system")
}

func TestRoom_paths(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"hidden/own", "hidden/other", "work", "data", "rest"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "file"), []byte(name+"\n"), 0o644))
	}
	secret := filepath.Join(dir, "rest", "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret\n"), 0o644))
	same := func(path string, write bool) Mount {
		return Mount{Kind: Bound, From: path, To: path, Write: write}
	}
	l := lodge(
		t,
		Mount{Kind: Memory, To: "/tmp", Options: "mode=1777,size=1m"}, Mount{Kind: Queues, To: "/dev/mqueue", Optional: true},
		same(filepath.Join(dir, "work"), true),
		same(filepath.Join(dir, "rest"), false),
		Mount{Kind: Bound, From: filepath.Join(dir, "data"), To: "/tmp/data/set"},
		Mount{Kind: Bound, From: filepath.Join(dir, "data", "file"), To: "/tmp/one/file"},
		Mount{Kind: Bound, From: dir + "/no", To: "/tmp/no", Optional: true},
		Mount{Kind: Hidden, To: "/tmp/absent"}, Mount{Kind: Bound, From: filepath.Join(dir, "data"), To: "/tmp/absent/set"},
		same(filepath.Join(dir, "hidden"), true),
		Mount{Kind: Hidden, To: filepath.Join(dir, "hidden")}, Mount{Kind: Hidden, To: secret}, Mount{Kind: Hidden, To: dir + "/no"},
		same(filepath.Join(dir, "hidden", "own"), true),
	)
	require.Equal(t, []string{
		"work", "hidden/own", "hidden/own", "data", "data", "0", "own", "written", "2", "2", "2", "2", "free", "2", "own thing",
	}, l.run(`cd `+dir+`
cat work/file hidden/own/file
cat /tmp`+dir[4:]+`/hidden/own/file
cat /tmp/data/set/file /tmp/one/file
wc -c < rest/secret
ls hidden
echo written > work/new && cat work/new
echo x 2>/dev/null > rest/new; echo $?
echo x 2>/dev/null > hidden/new; echo $?
echo x 2>/dev/null > /tmp/data/set/new; echo $?
echo x 2>/dev/null > /etc/new; echo $?
echo x > /tmp/free && echo free
ls hidden/other >/dev/null 2>&1; echo $?
echo own thing > hidden/own/made; cat hidden/own/made`))
	require.FileExists(t, filepath.Join(dir, "work", "new"))
	require.FileExists(t, filepath.Join(dir, "hidden", "own", "made"))
	require.NoFileExists(t, "/tmp/free")

	var data []byte
	var err error
	require.NoError(t, l.room.In(&User{}, func() { data, err = os.ReadFile("/tmp/data/set/file") }))
	require.NoError(t, err)
	require.Equal(t, "data\n", string(data))
	require.NoFileExists(t, "/tmp/data/set/file", "the others of the process are where they were")
}

// A task could put a link in the place of a directory after the agent has looked at it.
func TestRoom_mountsFollowNoLinks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "real", "sub"), 0o755))
	require.NoError(t, os.Symlink("real", filepath.Join(dir, "link")))
	for name, mount := range map[string]Mount{
		"from":   {Kind: Bound, From: dir + "/link/sub", To: dir + "/real/sub"},
		"to":     {Kind: Bound, From: dir + "/real/sub", To: dir + "/link/sub"},
		"hidden": {Kind: Hidden, To: dir + "/link/sub"},
		"none":   {Kind: Bound, From: dir + "/nothing", To: dir + "/real/sub"},
		"point":  {Kind: Bound, From: dir + "/real/sub", To: dir + "/nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() != 0 {
				t.Skip("only root makes namespaces")
			}
			thread := NewThread()
			defer thread.Close()
			room := Room{Mounts: []Mount{mount}}
			var err error
			thread.Do(func() { err = room.Enter() })
			require.Error(t, err)
			require.ErrorContains(t, err, dir)
			require.Zero(t, room.Pid())
		})
	}
	require.NoDirExists(t, dir+"/nothing")
}

// A room ends when nothing is in it.
func TestRoom_endsWithItsOrphans(t *testing.T) {
	l := lodge(t, Mount{Kind: Memory, To: "/tmp", Options: "size=1m"})
	from, to, err := os.Pipe()
	require.NoError(t, err)
	defer from.Close()
	pid := l.start("sleep 1000 & setsid sleep 1000 & exit 3", to)
	require.NoError(t, to.Close())
	require.Equal(t, 3, wait(t, pid).ExitStatus())
	first := l.room.Pid()
	l.room.Leave()
	got, err := syscall.Wait4(first, nil, syscall.WNOHANG, nil)
	require.NoError(t, err)
	require.Zero(t, got, "orphans are alive")
	name := "/proc/" + strconv.Itoa(first) + "/task/" + strconv.Itoa(first) + "/children"
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(text)), 2)
	for _, child := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(child)
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(n, syscall.SIGKILL))
	}
	status := wait(t, first)
	require.True(t, status.Exited(), "nobody has killed it")
	l.room.Reaped()
	require.Zero(t, l.room.Pid())
	require.ErrorIs(t, l.room.In(&User{}, func() { t.Error("there is no view any more") }), syscall.ESRCH)
}

// The thread that has made the room is the parent of its first process: with it ends all.
func TestRoom_endsWithItsThread(t *testing.T) {
	l := lodge(t, Mount{Kind: Memory, To: "/tmp", Options: "size=1m"})
	from, to, err := os.Pipe()
	require.NoError(t, err)
	defer from.Close()
	pid := l.start("setsid sleep 1000 & trap '' TERM HUP; while :; do sleep 1000; done", to)
	_ = to.Close()
	first := l.room.Pid()
	l.thread.Close()
	l.thread = nil
	require.True(t, wait(t, pid).Signaled())
	require.True(t, wait(t, first).Signaled())
	l.room.Reaped()
	_, err = io.ReadAll(from)
	require.NoError(t, err)
}

func TestMount_comesBackAsItWas(t *testing.T) {
	for _, m := range []Mount{
		{Kind: Bound, From: "/a b", To: "/c\n", Write: true}, {Kind: Memory, To: "/tmp", Options: "size=1m", Optional: true}, {Kind: Hidden, To: "/x"}, {Kind: Queues, To: "/q"},
	} {
		var got Mount
		require.True(t, got.Parse(m.Text()))
		require.Equal(t, m, got)
	}
	for _, text := range []string{"", "0", "0\x000\x00\x00/x", "9\x000\x00\x00/x\x00", "-1\x000\x00\x00/x\x00", "0\x009\x00\x00/x\x00", "0\x000\x00\x00x\x00", "0\x000\x00\x00/x\x00\x00"} {
		var got Mount
		require.False(t, got.Parse(text), "%q", text)
	}
}
