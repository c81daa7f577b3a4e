package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/netns"
	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/devcluster/proc"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// doomedEnv makes this program start a cluster, with the binary in the variable, and wait until it is killed.
const doomedEnv = "TEST_DOOMED"

// started is the doomed program's list of what it has started.
type started struct {
	Dir        string
	Processes  []proc.Process
	Commands   []string
	Namespaces []string
}

// A test run that is killed leaves nothing: no supervisor and no component, no shim whose agent is gone, no task, nothing
// that a task started in a session of its own, no network namespace, no file.
func TestKilledRun_leavesNothing(t *testing.T) {
	doomed := exec.Command("/proc/self/exe")
	doomed.Env = append(os.Environ(), doomedEnv+"="+mind)
	_, err := doomed.StdinPipe() // the pipe ends with this process, and then the other one ends as well
	require.NoError(t, err)
	stdout, err := doomed.StdoutPipe()
	require.NoError(t, err)
	stderr, err := doomed.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, doomed.Start())
	var s started
	if err := json.NewDecoder(stdout).Decode(&s); err != nil {
		said, _ := io.ReadAll(stderr)
		require.NoError(t, err, string(said))
	}
	all := strings.Join(s.Commands, "\n")
	for _, want := range []string{"mind dev ", "mind coordinator ", "mind gateway ", "mind shim ", "sleep 1001", "sleep 1002"} {
		require.Contains(t, all, want)
	}
	require.NotContains(t, all, "mind agent ", "it was killed, and the shim lives on")
	require.Equal(t, netns.Available() == nil, len(s.Namespaces) > 0)
	require.Equal(t, netns.Available() == nil, strings.Contains(all, "sleep 1003"))
	for i, p := range s.Processes {
		require.True(t, p.Runs(), s.Commands[i])
	}

	require.NoError(t, doomed.Process.Kill())
	said, err := io.ReadAll(stderr) // the watcher has this pipe open, too, until it is done
	require.NoError(t, err)
	_ = doomed.Wait()
	for i, p := range s.Processes {
		// A process that dies with another one may take a moment longer than the watcher.
		require.Truef(t, p.Ends(time.Minute), "%d (%s) is left; the watcher said: %s", p.Pid, s.Commands[i], said)
	}
	for _, ns := range s.Namespaces {
		require.NoFileExists(t, ns)
	}
	require.NoDirExists(t, s.Dir)
	require.NotEmpty(t, said, "it says what it has ended")
}

// beDoomed is the main function of the doomed program.
func beDoomed() int {
	s, err := startDoomed()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func startDoomed() (s started, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if s.Dir, err = os.MkdirTemp("", "doomed-"); err != nil {
		return s, err
	}
	c, err := procs.Start(ctx, mind, s.Dir, "--coordinators", "1", "--agents", "1", "--http", "127.0.0.1:0")
	if err != nil {
		return s, err
	}
	info, err := c.Info()
	if err != nil {
		return s, err
	}
	begun := filepath.Join(s.Dir, "begun")
	job := procs.Command("doomed", 1, "/bin/sh", "-c", "(setsid sleep 1001 &); echo >"+begun+"; sleep 1002; true")
	if _, err := procs.NewREST(info).Submit(ctx, "", job); err != nil {
		return s, err
	}
	for _, err := os.Stat(begun); err != nil; _, err = os.Stat(begun) {
		if ctx.Err() != nil {
			return s, fmt.Errorf("waiting for the task: %w", ctx.Err())
		}
		time.Sleep(10 * time.Millisecond) // no event signals that a task has begun
	}
	if err := errors.Join(c.Kill(info.Agents[0]), c.WaitGone(ctx, info.Agents[0])); err != nil {
		return s, err
	}
	inside := 0
	if netns.Available() == nil {
		n, err := netns.New("a")
		if err != nil {
			return s, err
		}
		sleeper := exec.Command("sleep", "1003")
		if err := n.Start("a", sleeper); err != nil {
			return s, err
		}
		inside = sleeper.Process.Pid
		s.Namespaces, _ = filepath.Glob("/run/netns/" + testrun.Name() + "-*")
		if len(s.Namespaces) != 2 {
			return s, fmt.Errorf("the network namespaces are %v: want a hub and a", s.Namespaces)
		}
	}
	for {
		s.Processes, s.Commands = nil, nil
		for _, p := range proc.All() {
			argv, environ := p.Strings("cmdline"), p.Strings("environ")
			cwd, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(p.Pid), "cwd"))
			mentions := func(v string) bool { return strings.Contains(v, s.Dir+"/") }
			if p.Pid == inside || mentions(cwd) || slices.ContainsFunc(argv, mentions) || slices.ContainsFunc(environ, mentions) {
				s.Processes, s.Commands = append(s.Processes, p), append(s.Commands, strings.Join(argv, " "))
			}
		}
		all := strings.Join(s.Commands, "\n")
		if strings.Contains(all, "sleep 1001") && strings.Contains(all, "sleep 1002") {
			return s, nil // the shell starts them at about the time at which it prints that it has begun
		}
		if ctx.Err() != nil {
			return s, fmt.Errorf("waiting for the processes of the task: %w", ctx.Err())
		}
	}
}
