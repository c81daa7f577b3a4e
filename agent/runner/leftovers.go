package runner

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/shim"
)

// KillLeftovers kills the processes that a task left when its shim was killed, and returns their number. Their parent
// is gone, so they are found by their environment, which child processes inherit unless they clear it.
func KillLeftovers(spec shim.Spec) int {
	if spec.Cgroup != "" {
		_ = os.WriteFile(spec.Cgroup+"/cgroup.kill", []byte("1"), 0)
	}
	marks := [][]byte{
		[]byte("MIND_JOB_ID=" + spec.JobID + "\x00"),
		[]byte("MIND_ATTEMPT=" + strconv.Itoa(int(spec.Attempt)) + "\x00"),
		[]byte("MIND_NODE_RANK=" + strconv.Itoa(int(spec.Rank)) + "\x00"),
	}
	killed := make(map[int]bool)
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		found := marked(marks)
		if len(found) == 0 {
			return len(killed)
		}
		for _, pid := range found {
			killed[pid] = true
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(pause)
	}
}

// marked finds living processes by their environment.
func marked(marks [][]byte) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []int
next:
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// A zombie has no environment.
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil {
			continue
		}
		for _, mark := range marks {
			if !bytes.HasPrefix(env, mark) && !bytes.Contains(env, append([]byte{0}, mark...)) {
				continue next
			}
		}
		found = append(found, pid)
	}
	return found
}
