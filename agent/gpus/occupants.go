package gpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/device"
	"github.com/mindcoordinator/mind/agent/gpus/holding"
	"github.com/mindcoordinator/mind/agent/taskid"
	"github.com/mindcoordinator/mind/api/wait"
)

const (
	// Patience is how long a GPU may take to become empty: the driver shows a process for a moment after its end, and a
	// killed process may need a moment to die.
	Patience   = 5 * time.Second
	emptyPause = 50 * time.Millisecond
)

// unaccountable are programs of the driver that use a GPU as long as the machine runs.
var unaccountable = []string{"nvidia-cuda-mps-server", "nvidia-cuda-mps-control", "nvidia-persistenced"}

// Task describes a task so that the task of a process can be found.
type Task struct {
	Name string
	// Pid is the process id of its command, which is also its session; 0: it was not started.
	Pid int
	// EndedAt is zero while the task is alive.
	EndedAt time.Time
	Has     holding.Holding
}

// Occupants finds the processes on a GPU.
type Occupants struct {
	Monitor *Monitor
	// TasksDir holds the directories of the tasks. Group is the parent of their control groups; empty: none.
	TasksDir, Group string
	// Tasks lists the tasks of the node.
	Tasks func() []Task
}

// whose finds the task of a process.
type whose struct {
	tasks, group string
	live         map[string]holding.Holding
	// pids are the tasks by the process id of their command.
	pids map[int]command
}

type command struct {
	task    string
	endedAt time.Time // zero: it has not ended
}

// whose indexes the tasks. The task with the name self counts as ended.
func (o *Occupants) whose(self string) *whose {
	w := &whose{tasks: o.TasksDir, group: o.Group, live: make(map[string]holding.Holding), pids: make(map[int]command)}
	for _, t := range o.Tasks() {
		if t.Name == self && t.EndedAt.IsZero() {
			t.EndedAt = time.Now()
		}
		if t.EndedAt.IsZero() {
			w.live[t.Name] = t.Has
		}
		if t.Pid != 0 {
			w.pids[t.Pid] = command{t.Name, t.EndedAt}
		}
	}
	return w
}

// owner returns the task of a process, by its environment, which child processes inherit unless they clear it, by its
// control group, or by its session. A process that is gone has no task.
func (w *whose) owner(pid int) (task string, ok bool) {
	proc := "/proc/" + strconv.Itoa(pid)
	if env, err := os.ReadFile(proc + "/environ"); err == nil {
		for entry := range bytes.SplitSeq(env, []byte{0}) {
			if file, found := bytes.CutPrefix(entry, []byte("MIND_METRICS_FILE=")); found {
				if dir := filepath.Dir(string(file)); filepath.Dir(dir) == w.tasks {
					return filepath.Base(dir), true
				}
			}
		}
	}
	if w.group != "" {
		if text, err := os.ReadFile(proc + "/cgroup"); err == nil {
			if name, isTask := inGroup(string(text), filepath.Base(w.group)); isTask {
				return name, true
			}
		}
	}
	session, started, ok := sessionOf(pid)
	if c, known := w.pids[session]; ok && known && (c.endedAt.IsZero() || started.Before(c.endedAt)) {
		return c.task, true
	}
	return "", false
}

// inGroup finds the task in the text of /proc/PID/cgroup: its group is below one with a name, and the task may have made
// groups in it.
func inGroup(text, parent string) (task string, ok bool) {
	for line := range strings.Lines(text) {
		path, unified := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if _, below, found := strings.Cut(path, "/"+parent+"/"); unified && found {
			name, _, _ := strings.Cut(below, "/")
			if _, isTask := taskid.Parse(name); isTask {
				return name, true
			}
		}
	}
	return "", false
}

// sessionOf reads the session and the start time of a process.
func sessionOf(pid int) (session int, started time.Time, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, started, false
	}
	// The fields after the name in parentheses are state, parent, group, session and so on; the 20th is the start time.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return 0, started, false
	}
	session, err = strconv.Atoi(fields[3])
	ticks, err2 := strconv.ParseInt(fields[19], 10, 64)
	var now unix.Timespec
	err3 := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	if err != nil || err2 != nil || err3 != nil {
		return 0, started, false
	}
	const ticksPerSecond = 100 // USER_HZ, on every machine that has GPUs
	age := time.Duration(now.Nano()) - time.Duration(ticks)*time.Second/ticksPerSecond
	return session, time.Now().Add(-age), true
}

// commandOf returns the name of a process for messages; empty if the process is gone.
func commandOf(pid int) string {
	proc := "/proc/" + strconv.Itoa(pid)
	line, err := os.ReadFile(proc + "/cmdline")
	if err == nil {
		if line = bytes.TrimRight(line, "\x00"); len(line) > 0 {
			text := strings.ToValidUTF8(string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})), "?")
			return text[:min(len(text), 80)]
		}
	}
	if comm, err := os.ReadFile(proc + "/comm"); err == nil {
		return strings.TrimSpace(string(comm))
	}
	return ""
}

// dead reports whether a process is gone, or is a zombie.
func dead(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	return bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" Z"))
}

// kill kills a process if it still belongs to the task: its id may have been reused meanwhile.
func (w *whose) kill(pid int, task string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if owner, ok := w.owner(pid); ok && owner == task {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// tenant is a process on a GPU that should not be there.
type tenant struct {
	uuid, text string
}

// Verify makes sure that only tasks that share the GPUs use them: before a task is launched on them, and after it has
// ended. It kills processes that earlier tasks left there. A GPU that is still in use after a while is quarantined, and
// the result names the process. The result is also set if the driver does not answer, or if ctx ends. self is the name
// of the task.
func (o *Occupants) Verify(ctx context.Context, self string, has holding.Holding) (occupied string) {
	g := o.Monitor
	uuids := g.UUIDs(has.GPUs)
	if len(uuids) == 0 {
		return ""
	}
	bounded, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	var w *whose
	for {
		users, err := device.ProcessesOf(bounded, g.inventory, uuids)
		if ctx.Err() != nil {
			return "the agent is stopping" // the next agent verifies the GPUs
		}
		if err != nil && (errors.Is(err, device.ErrHung) || bounded.Err() != nil) {
			g.unanswered(err)
			g.hurry()
			return "cannot check whether it is free: the driver does not answer"
		}
		var left []tenant
		if err == nil {
			if w == nil && anybody(users) {
				w = o.whose(self)
			}
			left = w.strangers(uuids, users, has)
			if len(left) == 0 {
				return ""
			}
		}
		wait.For(bounded, emptyPause)
		if bounded.Err() == nil {
			continue
		}
		if ctx.Err() != nil {
			return "the agent is stopping"
		}
		if err != nil {
			g.unanswered(err)
			return "cannot check whether it is free: " + err.Error()
		}
		for _, one := range left {
			g.use(one.uuid, one.text)
		}
		return g.title(left[0].uuid) + ": " + left[0].text
	}
}

func anybody(users map[string][]device.Process) bool {
	for _, processes := range users {
		if len(processes) > 0 {
			return true
		}
	}
	return false
}

// strangers lists the processes that should not be on the GPUs, and kills those that an ended task left.
func (w *whose) strangers(uuids []string, users map[string][]device.Process, has holding.Holding) (left []tenant) {
	for _, uuid := range uuids {
		for _, process := range users[uuid] {
			pid := process.Pid
			if dead(pid) && commandOf(pid) == "" {
				if has.Shared {
					continue // it may belong to a task that shares the GPU: not enough evidence
				}
				left = append(left, tenant{uuid, fmt.Sprintf("the driver shows process %d on it, which does not exist on this machine", pid)})
				continue
			}
			name := commandOf(pid)
			task, ours := w.owner(pid)
			other, alive := w.live[task]
			switch {
			case !ours && isUnaccountable(name):
			case !ours:
				left = append(left, tenant{uuid, fmt.Sprintf("process %d (%s) uses it, which belongs to no task", pid, name)})
			case alive && has.Shared && other.Shared:
				// The living task shares the GPU with this one.
			case alive:
				left = append(left, tenant{uuid, fmt.Sprintf("process %d (%s) of task %s uses it, which has no lease on it", pid, name, task)})
			default:
				w.kill(pid, task)
				left = append(left, tenant{uuid, fmt.Sprintf("process %d (%s), left by task %s, uses it and cannot be killed", pid, name, task)})
			}
		}
	}
	return left
}

func isUnaccountable(name string) bool {
	program, _, _ := strings.Cut(name, " ")
	for _, known := range unaccountable {
		if filepath.Base(program) == known {
			return true
		}
	}
	return false
}
