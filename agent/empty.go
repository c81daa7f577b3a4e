package agent

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
)

const (
	// emptyPatience is how long a GPU may take to become empty: the driver shows a process for a moment after its end, and a
	// process that was killed may need a moment to die.
	emptyPatience = 5 * time.Second
	emptyPause    = 50 * time.Millisecond
)

// unaccountable are programs that belong to the driver: they are on a GPU for as long as the machine runs.
var unaccountable = []string{"nvidia-cuda-mps-server", "nvidia-cuda-mps-control", "nvidia-persistenced"}

// who knows whose a process is.
type who struct {
	tasks string // the directory of the task directories
	group string // the control group of the agent's tasks; empty: none
	live  map[string]holding
	// pids are commands of tasks by their process id, which is that of their session, too.
	pids map[int]command
}

type command struct {
	task    string
	endedAt time.Time // zero: it has not
}

// who takes note of the tasks that there are. self counts as ended.
func (a *agent) who(self key) *who {
	w := &who{tasks: a.tasksDir(), group: a.cfg.CgroupParent, live: make(map[string]holding), pids: make(map[int]command)}
	a.ask(func() {
		for k, t := range a.tasks {
			if t.state == ended || k == self {
				if t.pid != 0 {
					at := t.endedAt
					if at.IsZero() {
						at = time.Now()
					}
					w.pids[t.pid] = command{k.name(), at}
				}
				continue
			}
			w.live[k.name()] = t.has
			if t.pid != 0 {
				w.pids[t.pid] = command{task: k.name()}
			}
		}
	})
	return w
}

// owner returns the task that a process is of, by its environment, which every process inherits unless it takes care not
// to, by its control group, or by its session. A process that is gone has none.
func (w *who) owner(pid int) (task string, ok bool) {
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
			parent, name := filepath.Split(strings.TrimSpace(string(text)))
			if _, isTask := parseName(name); isTask && strings.HasSuffix(parent, "/"+filepath.Base(w.group)+"/") {
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

// sessionOf reads the session of a process and when it was started.
func sessionOf(pid int) (session int, started time.Time, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, started, false
	}
	// After the name in parentheses: state, parent, group, session; the start is the 20th.
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
	const ticksPerSecond = 100 // what Linux tells programs, on every machine that has GPUs
	age := time.Duration(now.Nano()) - time.Duration(ticks)*time.Second/ticksPerSecond
	return session, time.Now().Add(-age), true
}

// commandOf names a process to people; empty when it is gone.
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

// dead reports whether a process is gone, or waits for its parent to notice.
func dead(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	return bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" Z"))
}

// kill kills a process if it still is of the task: its number may have been given to another meanwhile.
func (w *who) kill(pid int, task string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if owner, ok := w.owner(pid); ok && owner == task {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// tenant is somebody on a GPU who should not be there.
type tenant struct {
	uuid, text string
}

// verifyEmpty sees to it that nobody is on the GPUs but tasks that share them: before a task is launched on them, and after
// it has ended. What earlier tasks left there is killed. A GPU that somebody is still on after a while is set aside, and the
// answer says who; it also says so when the driver tells nothing.
func (a *agent) verifyEmpty(self key, has holding) (occupied string) {
	uuids := a.gpus.uuids(has.gpus)
	if len(uuids) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), emptyPatience)
	defer cancel()
	var w *who
	for {
		users, err := device.ProcessesOf(ctx, a.gpus.inventory, uuids)
		if err != nil && (errors.Is(err, device.ErrHung) || ctx.Err() != nil) {
			a.gpus.unanswered(err)
			a.gpus.hurry()
			return "nobody can tell whether it is free: the driver does not answer"
		}
		var left []tenant
		if err == nil {
			if w == nil && anybody(users) {
				w = a.who(self)
			}
			left = w.strangers(uuids, users, has)
			if len(left) == 0 {
				return ""
			}
		}
		sleep(ctx, emptyPause)
		select {
		case <-a.over:
			return "the agent is stopping" // the next one sees to it
		default:
		}
		if ctx.Err() == nil {
			continue
		}
		if err != nil {
			a.gpus.unanswered(err)
			return "nobody can tell whether it is free: " + err.Error()
		}
		for _, who := range left {
			a.gpus.use(who.uuid, who.text)
		}
		return a.gpus.title(left[0].uuid) + ": " + left[0].text
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

// strangers lists who is on the GPUs and should not be, and kills those of them that an ended task left.
func (w *who) strangers(uuids []string, users map[string][]device.Process, has holding) (left []tenant) {
	for _, uuid := range uuids {
		for _, process := range users[uuid] {
			pid := process.Pid
			if dead(pid) && commandOf(pid) == "" {
				if has.shared {
					continue // it may be of those who share the GPU: nobody is accused on such evidence
				}
				left = append(left, tenant{uuid, fmt.Sprintf("the driver shows process %d on it, which this machine does not have", pid)})
				continue
			}
			name := commandOf(pid)
			task, ours := w.owner(pid)
			other, alive := w.live[task]
			switch {
			case !ours && isUnaccountable(name):
			case !ours:
				left = append(left, tenant{uuid, fmt.Sprintf("process %d (%s) uses it, which is of no task", pid, name)})
			case alive && has.shared && other.shared:
				// It has a part of the GPU, too.
			case alive:
				left = append(left, tenant{uuid, fmt.Sprintf("process %d (%s) of task %s uses it, which has no right to it", pid, name, task)})
			default:
				w.kill(pid, task)
				left = append(left, tenant{uuid, fmt.Sprintf("process %d (%s) that task %s left uses it, and does not die", pid, name, task)})
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
