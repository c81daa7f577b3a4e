package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/shim/confine"
)

// sleepAs starts a process with the environment of a task.
func sleepAs(t *testing.T, spec shim.Spec, uid uint32) (pid int) {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.Dir, cmd.Env = "/", []string{"MIND_JOB_ID=" + spec.JobID, "MIND_ATTEMPT=1", "MIND_NODE_RANK=0"}
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// Any job can give its processes the environment of another one, and would get what users send to that one's ports.
func TestProcesses_theEnvironmentOfAnotherJobIsNoProof(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of others")
	}
	spec := shim.Spec{JobID: "job_proof", Attempt: 1}
	one, other := sleepAs(t, spec, 4321), sleepAs(t, spec, 4322)
	require.ElementsMatch(t, []int{one, other}, Processes(spec, ""), "tasks have the user of the agent")
	spec.User = confine.User{UID: 4321, GID: 4321}
	require.Equal(t, []int{one}, Processes(spec, ""))
	require.Empty(t, Processes(spec, filepath.Join(t.TempDir(), "group")), "the group has none")
}
