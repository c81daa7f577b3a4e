package agent

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// unfitNode is an agent process whose data is on a small disk.
type unfitNode struct {
	t    *testing.T
	l    *fakeLeader
	disk string // its path for the test
}

func startUnfit(t *testing.T, options string) *unfitNode {
	if os.Geteuid() != 0 {
		t.Skip("mounting a disk needs root")
	}
	n := &unfitNode{t: t, l: newLeader(t)}
	cfg := testConfig(t, n.l)
	cfg.SpareShims = -1
	cmd := processOf(t, cfg, "/proc/self/exe", func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, diskEnv+"="+options)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	})
	n.disk = fmt.Sprintf("/proc/%d/root%s", cmd.Process.Pid, cfg.DataDir)
	n.l.hello(0)
	return n
}

// runs runs a task on the node, and requires that it succeeds.
func (n *unfitNode) runs(beside ...*v1.TaskOrder) {
	n.t.Helper()
	o := order("true")
	n.l.want(append(beside, o)...)
	end := n.l.ended(o.GetTask())
	require.Zero(n.t, end.GetExitCode(), end.GetErrorMessage())
	require.NotNil(n.t, end.ExitCode)
}

// givesBack orders a task and requires that the node gives it back, after it has reported the reason to the leader.
func (n *unfitNode) givesBack(why string, beside ...*v1.TaskOrder) {
	n.t.Helper()
	o := order("true")
	n.l.want(append(beside, o)...)
	end := n.l.ended(o.GetTask())
	require.Equal(n.t, v1.ErrorType_NODE_UNFIT, end.GetErrorType(), end.GetErrorMessage())
	require.Contains(n.t, end.GetErrorMessage(), "node n1 cannot start tasks: ")
	require.Contains(n.t, end.GetErrorMessage(), why)
	n.l.change(func() {
		require.NotEmpty(n.t, n.l.unfit, "the leader hears of the node before it hears of the task")
		require.Contains(n.t, n.l.unfit[len(n.l.unfit)-1], why)
	})
}

func (n *unfitNode) comesBack() {
	n.t.Helper()
	n.l.await("the node says that it is fit", func() bool { return n.l.unfit[len(n.l.unfit)-1] == "" })
}

// A node whose disk is full, read-only or without inodes gives new tasks back, keeps its running task, and becomes fit
// again by itself.
func TestANodeThatCannotStartTasksStepsAside(t *testing.T) {
	fill := func(n *unfitNode) {
		require.ErrorIs(t, os.WriteFile(filepath.Join(n.disk, "filler"), make([]byte, 64<<20), 0o600), syscall.ENOSPC)
	}
	for name, c := range map[string]struct {
		options    string
		hurt, heal func(n *unfitNode)
		why        string
	}{
		"a full disk": {"size=32m", fill, func(n *unfitNode) { require.NoError(t, os.Remove(filepath.Join(n.disk, "filler"))) }, "is full: less than 327 KiB are free"},
		"no inodes": {"size=32m,nr_inodes=1000", func(n *unfitNode) {
			for i := 0; os.Mkdir(filepath.Join(n.disk, fmt.Sprintf("filler-%d", i)), 0o700) == nil; i++ {
			}
		}, func(n *unfitNode) {
			for i := range 500 {
				_ = os.Remove(filepath.Join(n.disk, fmt.Sprintf("filler-%d", i)))
			}
		}, "has no inodes left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startUnfit(t, c.options)
			n.runs()
			gate := filepath.Join(t.TempDir(), "gate")
			long := order("sh", "-c", "while [ ! -e "+gate+" ]; do sleep 0.01; done; exit 7")
			n.l.want(long)
			n.l.running(long.GetTask())
			c.hurt(n)
			one := order("true")
			n.l.want(long, one)
			require.Equal(t, v1.ErrorType_NODE_UNFIT, n.l.ended(one.GetTask()).GetErrorType(), n.l.ended(one.GetTask()).GetErrorMessage())
			n.l.want(long)
			n.givesBack(c.why, long)
			c.heal(n)
			n.comesBack()
			n.runs(long)
			require.NoError(t, os.WriteFile(gate, nil, 0o600))
			n.l.want(long)
			require.EqualValues(t, 7, n.l.ended(long.GetTask()).GetExitCode())
			n.l.change(func() {
				changes := slices.Compact(slices.Clone(n.l.unfit))
				require.Len(t, changes, 2, "it does not go to and fro: %q", changes)
			})
		})
	}
}

// The readiness of an agent also shows that its node cannot start tasks.
func TestReadinessOfANodeThatCannotStartTasks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a disk needs root")
	}
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.HTTPAddr, cfg.SpareShims = "127.0.0.1:0", -1
	cmd := processOf(t, cfg, "/proc/self/exe", func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, diskEnv+"=size=32m")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	})
	addr := l.hello(0).GetHttpAddr()
	get := func() string {
		resp, err := http.Get("http://" + addr + "/health/ready")
		require.NoError(t, err)
		defer resp.Body.Close()
		text := new(strings.Builder)
		require.NoError(t, resp.Write(text))
		return text.String()
	}
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/root%s/filler", cmd.Process.Pid, cfg.DataDir), make([]byte, 64<<20), 0o600)
	o := order("true")
	l.want(o)
	require.Equal(t, v1.ErrorType_NODE_UNFIT, l.ended(o.GetTask()).GetErrorType())
	require.Contains(t, get(), "503")
	require.Contains(t, get(), "the node cannot start tasks: the disk of")
}
