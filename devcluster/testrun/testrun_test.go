package testrun

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/devcluster/proc"
)

// roleEnv makes this program play a role instead of running the tests.
const roleEnv = "TEST_ROLE"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "shim", os.Getenv(roleEnv) == "waits":
		for {
			_ = unix.Pause()
		}
	case os.Getenv(roleEnv) == "run":
		os.Exit(Main(play))
	}
	os.Exit(Main(m.Run))
}

// scene describes a run.
type scene struct {
	Dir string
	// Ours are its processes, by their roles.
	Ours map[string]proc.Process
	// Bystander is a process that only uses its directory.
	Bystander proc.Process
}

// play is the main function of a run that starts a few processes, and then obeys its input.
func play() int {
	dir := os.TempDir()
	s := scene{Dir: dir, Ours: map[string]proc.Process{}}
	start := func(cmd *exec.Cmd) proc.Process {
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		p, _ := proc.Of(cmd.Process.Pid)
		return p
	}
	waits := func(env []string, args ...string) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args, cmd.Env = append([]string{"mind"}, args...), append([]string{roleEnv + "=waits"}, env...)
		return cmd
	}
	s.Ours["a child"] = start(exec.Command("sleep", "1000"))
	s.Ours["a task"] = start(waits([]string{"MIND_METRICS_FILE=" + dir + "/agents/n1/tasks/1/metrics.jsonl"}))
	s.Ours["a shim"] = start(waits(nil, "shim", "--dir", dir+"/agents/n1/tasks", "--wait"))
	forgets := exec.Command("sh", "-c", "env -i sh -c 'echo $$; exec sleep 1000'; true")
	out, err := forgets.StdoutPipe()
	if err != nil {
		panic(err)
	}
	s.Ours["a parent"] = start(forgets)
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		panic(err)
	}
	s.Ours["a child without the environment"], _ = proc.Of(pid)
	looks := waits([]string{"PWD=" + dir, "DIR=" + dir}, "less", dir+"/log")
	looks.Dir, looks.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	s.Bystander = start(looks)
	if os.Geteuid() == 0 {
		if err := os.Mkdir(filepath.Join(dir, "disk"), 0o700); err != nil {
			panic(err)
		}
		_ = unix.Mount("tmpfs", filepath.Join(dir, "disk"), "tmpfs", 0, "size=1m") // without the rights to mount, there is nothing to undo
	}
	if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
		panic(err)
	}
	word, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch word {
	case "panic\n":
		panic("as a test does that takes too long")
	case "keep\n":
		if err := os.WriteFile(filepath.Join(dir, "evidence"), nil, 0o600); err != nil {
			panic(err)
		}
	}
	return 0
}

// playing is a run of play.
type playing struct {
	scene
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr io.ReadCloser
}

func startRun(t *testing.T) *playing {
	t.Helper()
	r := &playing{cmd: exec.Command("/proc/self/exe")}
	r.cmd.Env = append(os.Environ(), roleEnv+"=run")
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	r.stdin, err = r.cmd.StdinPipe() // so the run ends with this process
	require.NoError(t, err)
	stdout, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	r.stderr, err = r.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	require.NoError(t, json.NewDecoder(stdout).Decode(&r.scene))
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_, _ = io.ReadAll(r.stderr)
		_ = r.cmd.Wait()
		_ = unix.Kill(r.Bystander.Pid, unix.SIGKILL)
		require.NoError(t, os.RemoveAll(r.Dir), "nothing is mounted there")
	})
	return r
}

// tell sends a word to the run, waits until the run and its watcher have ended, and returns their output.
func (r *playing) tell(t *testing.T, word string) string {
	t.Helper()
	_, err := fmt.Fprintln(r.stdin, word)
	require.NoError(t, err)
	return r.said(t)
}

func (r *playing) said(t *testing.T) string {
	t.Helper()
	said, err := io.ReadAll(r.stderr)
	require.NoError(t, err)
	return string(said)
}

func (r *playing) requireAll(t *testing.T, run bool) {
	t.Helper()
	require.Len(t, r.Ours, 5)
	for what, p := range r.Ours {
		require.NotZero(t, p.Pid, what)
		if run {
			require.True(t, p.Runs(), what)
		} else {
			require.True(t, p.Ends(time.Minute), what) // a process that ends by itself may take a moment longer than its run
		}
	}
	require.True(t, r.Bystander.Runs(), "it belongs to nobody here")
}

// watcher returns the watcher of the run.
func (r *playing) watcher(t *testing.T) proc.Process {
	t.Helper()
	all := proc.All()
	at := slices.IndexFunc(all, func(p proc.Process) bool {
		return p.Parent == r.cmd.Process.Pid && slices.Contains(p.Strings("environ"), watchEnv+"="+r.Dir)
	})
	require.NotEqual(t, -1, at)
	return all[at]
}

func TestMain_leavesNothingOfARunThatDies(t *testing.T) {
	for how, die := range map[string]func(*playing){
		"killed":                func(r *playing) { _ = r.cmd.Process.Kill() },
		"killed with its group": func(r *playing) { _ = unix.Kill(-r.cmd.Process.Pid, unix.SIGKILL) },
		"interrupted":           func(r *playing) { _ = unix.Kill(r.cmd.Process.Pid, unix.SIGINT) },
		"panics":                func(r *playing) { _, _ = fmt.Fprintln(r.stdin, "panic") },
	} {
		t.Run(how, func(t *testing.T) {
			r := startRun(t)
			r.requireAll(t, true)
			die(r)
			said := r.said(t)
			if how != "killed with its group" {
				require.Contains(t, said, "testrun: killed what the run in "+r.Dir+" left: ")
			}
			r.requireAll(t, false)
			require.NoDirExists(t, r.Dir)
			mounts, err := os.ReadFile("/proc/self/mounts")
			require.NoError(t, err)
			require.NotContains(t, string(mounts), r.Dir)
		})
	}
}

func TestMain_keepsTheFilesOfARunThatEnds(t *testing.T) {
	r := startRun(t)
	// This is a run of a program that this run has started, and that was killed with its watcher.
	within := filepath.Join(r.Dir, prefix+"within")
	require.NoError(t, os.Mkdir(within, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(within, lockName), nil, 0o600))
	r.tell(t, "keep")
	require.NoDirExists(t, within)
	r.requireAll(t, false)
	require.NoError(t, r.cmd.Wait())
	require.NoError(t, sweepDead(filepath.Dir(r.Dir)))
	require.FileExists(t, filepath.Join(r.Dir, "evidence"))
	require.NoFileExists(t, filepath.Join(r.Dir, lockName))
}

// If the watcher was killed as well, the next run cleans up, but does not touch runs that continue.
func TestMain_sweepsWhatAnEarlierRunLeft(t *testing.T) {
	dead, live := startRun(t), startRun(t)
	require.Equal(t, filepath.Dir(dead.Dir), filepath.Dir(live.Dir))
	dead.requireAll(t, true)
	require.NoError(t, unix.Kill(dead.watcher(t).Pid, unix.SIGKILL))
	require.NoError(t, dead.cmd.Process.Kill())
	require.NotContains(t, dead.said(t), "testrun")
	dead.requireAll(t, true)
	require.DirExists(t, dead.Dir)

	next := startRun(t)
	dead.requireAll(t, false)
	require.NoDirExists(t, dead.Dir)
	live.requireAll(t, true)
	require.DirExists(t, live.Dir)
	next.tell(t, "end")
	live.requireAll(t, true)
}

// A run that has just made its directory has no lock file yet.
func TestSweepDead_letsAloneWhatIsNoDeadRun(t *testing.T) {
	base := t.TempDir()
	begins := filepath.Join(base, prefix+"begins")
	require.NoError(t, os.Mkdir(begins, 0o700))
	other := filepath.Join(base, "mind-dev-1")
	require.NoError(t, os.Mkdir(other, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(other, lockName), nil, 0o600))
	dead := filepath.Join(base, prefix+"dead")
	require.NoError(t, os.Mkdir(dead, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dead, lockName), nil, 0o600))
	elsewhere := filepath.Join(t.TempDir(), prefix+"elsewhere")
	require.NoError(t, os.Rename(dead, elsewhere))
	require.NoError(t, os.Symlink(elsewhere, dead))
	require.NoError(t, sweepDead(base))
	for _, dir := range []string{begins, other, elsewhere} {
		require.DirExists(t, dir)
	}
	require.NoError(t, os.Remove(dead))
	require.NoError(t, os.Rename(elsewhere, dead))
	require.NoError(t, sweepDead(base))
	require.NoDirExists(t, dead)
}

func TestName_isThatOfTheDirectoryForTemporaryFiles(t *testing.T) {
	require.Equal(t, Name(), filepath.Base(os.TempDir()))
	require.True(t, strings.HasPrefix(t.TempDir(), os.TempDir()+"/"))
}
