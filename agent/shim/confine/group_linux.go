package confine

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Group is the control group of a task; nil: it has none.
type Group struct {
	path string
	fd   int
}

// NewGroup makes a control group with limits, each a file and its value. A group that an earlier start has left is used again.
// Without a path there is none.
func NewGroup(path string, limits []string) (*Group, error) {
	if path == "" {
		return nil, nil
	}
	if err := os.Mkdir(path, 0o755); err != nil && !os.IsExist(err) {
		return nil, err
	}
	for _, limit := range limits {
		file, value, _ := cut(limit, ' ')
		if err := os.WriteFile(path+"/"+file, []byte(value), 0); err != nil {
			RemoveGroup(path)
			return nil, err
		}
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Group{path: path, fd: fd}, nil
}

// Use makes a process start in the group.
func (g *Group) Use(attr *syscall.SysProcAttr) {
	if g != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, g.fd
	}
}

// Kill sends SIGKILL to all processes of the group and of the groups in it. The kernel misses none, not even one that is being
// forked.
func (g *Group) Kill() {
	if g != nil {
		KillGroup(g.path)
	}
}

// EmptySoon reports whether no process is left. The kernel may count a process for a moment after its parent has reaped it.
func (g *Group) EmptySoon() bool {
	for range 20 {
		if g == nil || GroupEmpty(g.path) {
			return true
		}
		time.Sleep(500 * time.Microsecond)
	}
	return false
}

// Processes returns the processes of the group and of the groups in it.
func (g *Group) Processes() []int {
	if g == nil {
		return nil
	}
	return GroupProcesses(g.path)
}

// OOMKills returns how many processes the kernel has killed because of the memory.
func (g *Group) OOMKills() int {
	if g == nil {
		return 0
	}
	return numberOf(g.path+"/memory.events", "oom_kill")
}

// RefusedForks returns how often the limit of processes was reached.
func (g *Group) RefusedForks() int {
	if g == nil {
		return 0
	}
	return numberOf(g.path+"/pids.events", "max")
}

// Value reads a number that is alone in its file; 0: there is none, or no limit.
func (g *Group) Value(file string) int64 {
	if g == nil {
		return 0
	}
	text, err := os.ReadFile(g.path + "/" + file)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	return n
}

// Remove removes the group.
func (g *Group) Remove() {
	if g != nil {
		_ = syscall.Close(g.fd)
		RemoveGroup(g.path)
	}
}

// KillGroup kills all processes of a control group and of the groups in it.
func KillGroup(path string) { _ = os.WriteFile(path+"/cgroup.kill", []byte("1"), 0) }

// GroupEmpty reports whether a control group and the groups in it have no process. A group that is not there has none.
func GroupEmpty(path string) bool {
	var buffer [128]byte
	// The runtime's poller would watch a file of package os: that costs more than the question.
	fd, err := syscall.Open(path+"/cgroup.events", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err == syscall.ENOENT
	}
	defer syscall.Close(fd)
	n, err := syscall.Read(fd, buffer[:])
	if err != nil {
		return err == syscall.ENODEV // it was removed meanwhile
	}
	return bytes.HasPrefix(buffer[:n], []byte("populated 0\n"))
}

// GroupProcesses returns the processes of a control group and of the groups in it.
func GroupProcesses(path string) []int {
	var pids []int
	text, _ := os.ReadFile(path + "/cgroup.procs")
	for _, field := range bytes.Fields(text) {
		// Zero is a process of another PID namespace.
		if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	for _, name := range groupsIn(path) {
		pids = append(pids, GroupProcesses(path+"/"+name)...)
	}
	return pids
}

// RemoveGroup removes a control group without processes, and the groups that the task has made in it. The kernel refuses
// that for a moment after the end of the last process.
func RemoveGroup(path string) {
	for pause := time.Millisecond; pause < 100*time.Millisecond; pause *= 2 {
		if err := syscall.Rmdir(path); err != syscall.EBUSY {
			return
		}
		// Few tasks make groups, so they are looked for only now.
		inner := groupsIn(path)
		for _, name := range inner {
			RemoveGroup(path + "/" + name)
		}
		if len(inner) > 0 && syscall.Rmdir(path) != syscall.EBUSY {
			return
		}
		time.Sleep(pause)
	}
}

// cut is strings.Cut, whose package costs the start of a shim too much.
func cut(s string, sep byte) (before, after string, found bool) {
	for i := range len(s) {
		if s[i] == sep {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func groupsIn(path string) []string {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// numberOf reads the number after a name at the start of a line; 0: there is none.
func numberOf(file, name string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) == 2 && string(fields[0]) == name {
			n, _ := strconv.Atoi(string(fields[1]))
			return n
		}
	}
	return 0
}
