package runner

import (
	"bytes"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/shim/confine"
)

// KillLeftovers kills the processes that a task left when its shim was killed, and returns their number. It returns when
// none is left: none in its control group, if it has one, none with its environment, which child processes inherit unless
// they clear it, and none of those that were found so before: a process that ends has no environment any more while it
// still holds its files, those of GPUs among them. known are other processes of the task.
func KillLeftovers(spec shim.Spec, group string, known ...process) int {
	killed := make(map[int]process)
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		found := Processes(spec, group)
		for _, pid := range marked(spec) { // one may have left the group
			if !slices.Contains(found, pid) {
				found = append(found, pid)
			}
		}
		for _, pid := range found {
			if _, before := killed[pid]; !before {
				killed[pid] = processOf(pid)
			}
		}
		if len(found) == 0 && (group == "" || confine.GroupEmpty(group)) && allOver(maps.Values(killed)) && allOver(slices.Values(known)) {
			if group != "" {
				confine.RemoveGroup(group)
			}
			return len(killed)
		}
		if group != "" {
			confine.KillGroup(group)
		}
		for _, pid := range found {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(pause)
	}
}

// process is a process, whose number may be used again when it is over. The zero value is over.
type process struct {
	pid     int
	started string
}

func processOf(pid int) process {
	_, started := statOf(pid)
	return process{pid, started}
}

// over reports whether the process has ended, whether its parent knows that or not.
func (p process) over() bool {
	if p.pid == 0 || p.started == "" {
		return true
	}
	state, started := statOf(p.pid)
	return started != p.started || state == "Z" || state == "X"
}

func allOver(all iter.Seq[process]) bool {
	for p := range all {
		if !p.over() {
			return false
		}
	}
	return true
}

// statOf reads the state and the start of a process; empty: there is none.
func statOf(pid int) (state, started string) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", ""
	}
	// The name in parentheses may have any characters.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", ""
	}
	return string(fields[0]), string(fields[19])
}

// killGroup kills the processes of a control group until none is left, and removes it.
func killGroup(group string) {
	for pause := time.Millisecond; !confine.GroupEmpty(group); pause = min(2*pause, time.Second) {
		confine.KillGroup(group)
		time.Sleep(pause)
	}
	confine.RemoveGroup(group)
}

// Processes finds the living processes of a task, whose parent may be gone: those in its control group, or, if it has none, those with
// its environment. Where there is a group it alone counts: any job can give its processes the environment of another one.
func Processes(spec shim.Spec, group string) []int {
	if group != "" {
		return confine.GroupProcesses(group)
	}
	return marked(spec)
}

// marked finds living processes with the environment of a task, of its user if it has one of its own.
func marked(spec shim.Spec) []int {
	marks := [][]byte{
		[]byte("MIND_JOB_ID=" + spec.JobID + "\x00"),
		[]byte("MIND_ATTEMPT=" + strconv.Itoa(int(spec.Attempt)) + "\x00"),
		[]byte("MIND_NODE_RANK=" + strconv.Itoa(int(spec.Rank)) + "\x00"),
	}
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
		if !spec.User.None() && !ofUser(pid, spec.User.UID) {
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

// ofUser reports whether a process has a user. Its directory in /proc may belong to root although it has.
func ofUser(pid int, uid uint32) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(status, []byte("\nUid:\t"))
	real, _, _ := bytes.Cut(rest, []byte("\t"))
	return string(real) == strconv.FormatUint(uint64(uid), 10)
}
