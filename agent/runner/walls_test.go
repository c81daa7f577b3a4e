package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/agent/tasklog"
)

// walled returns the specification of a task that may write in one directory, and read the system and another one.
func walled(t *testing.T, argv ...string) (spec shim.Spec, write, read string) {
	t.Helper()
	if confine.LandlockVersion() < 6 {
		t.Skip("the kernel has no Landlock with scopes")
	}
	write, read = t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(read, "input"), []byte("input\n"), 0o644))
	spec = newSpec(argv...)
	spec.Walls = confine.Walls{Scope: true, Read: []string{"/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", read, "/no/such/path"}, Write: []string{write, "/dev/null"}}
	return spec, write, read
}

// stdout returns the lines that a task has printed.
func stdout(t *testing.T, dir string) (lines []string) {
	t.Helper()
	for _, entry := range logLines(t, dir) {
		if entry.Kind == tasklog.Stdout {
			lines = append(lines, entry.Text)
		}
	}
	return lines
}

func TestWalls_paths(t *testing.T) {
	other := t.TempDir()
	secret := filepath.Join(other, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o644))
	spec, write, read := walled(t, "sh", "-c", `
cat $READ/input && echo more >> $READ/input; echo changed $?
echo mine > $WRITE/mine && cat $WRITE/mine && mkdir $WRITE/dir && mv $WRITE/mine $WRITE/dir/ && rm -r $WRITE/dir && echo free
cat $OTHER/secret; echo secret $?
ls $OTHER; echo list $?
ln -s $OTHER/secret $WRITE/link; cat $WRITE/link; echo link $?
ln $OTHER/secret $WRITE/hard; echo hard $?
mv $OTHER/secret $WRITE/moved; echo moved $?
cat /proc/$$/root$OTHER/secret; echo proc $?
mknod $WRITE/disk b 7 0; echo mknod $?
echo x > /etc/mind-was-here; echo etc $?
echo x > $OTHER/new; echo new $?
env -i setsid sh -c "cat $OTHER/secret; echo child \$?"`)
	spec.Env = append(spec.Env, "READ="+read, "WRITE="+write, "OTHER="+other)
	h, dir := start(t, spec)
	require.Zero(t, exited(t, h).Code)
	require.Equal(t, []string{
		"input", "changed 2", "mine", "free", "secret 1", "list 2", "link 1", "hard 1", "moved 1", "proc 1", "mknod 1", "etc 2", "new 2", "child 1",
	}, stdout(t, dir))
	require.FileExists(t, secret)
}

// Neither signals nor tracing cross the walls, outwards. A shell of the same task is inside.
func TestWalls_processes(t *testing.T) {
	numbersOfTheMachine(t)
	victim := exec.Command("sleep", "1000")
	require.NoError(t, victim.Start())
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	pid := strconv.Itoa(victim.Process.Pid)
	spec, _, _ := walled(t, "sh", "-c", "kill "+pid+"; echo kill $?; kill $PPID; echo shim $?; cat /proc/"+pid+"/environ >/dev/null; echo environ $?; "+
		"sleep 1000 & kill $! && echo own; sleep 1000")
	h, dir := start(t, spec)
	main := running(t, h)
	waitFor(t, "its lines", func() bool { return len(stdout(t, dir)) == 4 })
	require.Equal(t, []string{"kill 1", "shim 1", "environ 1", "own"}, stdout(t, dir))

	out := filepath.Join(t.TempDir(), "out")
	file, err := os.Create(out)
	require.NoError(t, err)
	defer file.Close()
	command := "grep NoNewPrivs /proc/self/status; kill -9 " + pid + "; echo other $?; kill -9 " + strconv.Itoa(main) + "; echo main $?"
	shell, err := StartShell(dir, shim.Shell{Argv: []string{"sh", "-c", command}}, file, file, file)
	require.NoError(t, err)
	defer shell.Close()
	_, _ = shell.Wait()
	require.Equal(t, 137, exited(t, h).Code, "the shell may signal the command")
	said, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Contains(t, string(said), "NoNewPrivs:\t1\n")
	require.Contains(t, string(said), "other 1\n")
}

func TestWalls_aProgramOutsideOfThem(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	spec, _, _ := walled(t, program)
	h, _ := start(t, spec)
	exit := exited(t, h)
	require.Equal(t, shim.FailureLaunch, exit.Failure)
	require.Contains(t, exit.Message, "may be outside of the paths that jobs reach on this node")
}
