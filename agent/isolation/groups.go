package isolation

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/shim/confine"
)

const (
	// top is the group below which all agents of a machine have theirs.
	top = "mind"
	// leaf is the group of the agent itself in a delegated group: one that has groups with limits can have no process.
	leaf = "mind-agent"
	// attribute keeps the data directory of the agent at its group, so that groups of agents that are gone can be removed.
	attribute = "user.mind.data_dir"
)

// wanted are the controllers that limit tasks.
var wanted = []string{"cpu", "memory", "pids"}

// openGroups makes the group in which the agent makes those of its tasks.
func openGroups(cfg Config) (*Isolation, error) {
	parent, err := cfg.Parent, error(nil)
	if parent == "" {
		look := find
		if cfg.find != nil {
			look = cfg.find
		}
		if parent, err = look(); err != nil {
			return nil, err
		}
	}
	if err := isGroup(parent); err != nil {
		return nil, err
	}
	sweep(parent)
	// The data directory, not the node, makes the name unique: clusters of one machine may use the same names.
	sum := sha256.Sum256([]byte(cfg.DataDir))
	group := filepath.Join(parent, cfg.Node+"-"+hex.EncodeToString(sum[:4]))
	if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make a control group: %w", err)
	}
	// Without extended attributes the group stays when its agent never comes back.
	_ = unix.Setxattr(group, attribute, []byte(cfg.DataDir), 0)
	if _, err := os.Stat(filepath.Join(group, "cgroup.kill")); err != nil {
		removeEmpty(group)
		return nil, errors.New("the kernel cannot kill a control group at once: it is older than Linux 5.14")
	}
	i := &Isolation{Level: Cgroup, groups: group, Controllers: enable(parent, group)}
	i.files = i.limitFiles()
	if err := i.try(); err != nil {
		i.Close()
		return nil, fmt.Errorf("start a process in a control group: %w", err)
	}
	return i, nil
}

// try starts a process in a group, as shims do.
func (i *Isolation) try() error {
	program, err := exec.LookPath("true")
	if err != nil {
		return nil // a machine without it has other worries
	}
	group := i.Task("try")
	if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	defer confine.RemoveGroup(group)
	dir, err := os.Open(group)
	if err != nil {
		return err
	}
	defer dir.Close()
	cmd := exec.Command(program)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	return cmd.Run()
}

// find returns the directory in which agents may make groups, and makes it.
func find() (string, error) {
	mount, err := mounted()
	if err != nil {
		return "", err
	}
	own, err := ownGroup()
	if err != nil {
		return "", err
	}
	// Not in the unit of root's agent: systemd starts no process in a group that still has groups with tasks, so the agent could not
	// be started again.
	if dir := delegated(mount, own); dir != "" && os.Geteuid() != 0 {
		return dir, leave(dir)
	}
	if _, err := os.Stat(filepath.Join(mount, "cgroup.events")); err == nil {
		// The group of a container, which has its processes: with groups that have limits, it can have none.
		if err := leave(mount); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(mount, top)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make a control group: %w (as root, as a user in a unit with Delegate=yes, or with cgroup_parent, the agent may)", err)
	}
	// The limits of the groups need their controllers here. systemd has enabled them.
	enable(mount, dir)
	return dir, nil
}

// mounted returns where cgroup v2 is mounted.
func mounted() (string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("look for cgroup v2: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		// The optional fields before the type end with a dash: proc(5).
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if kind, _, _ := strings.Cut(after, " "); kind == "cgroup2" && len(fields) > 5 {
			return fields[4], nil
		}
	}
	return "", errors.New("cgroup v2 is not mounted: boot with systemd.unified_cgroup_hierarchy=1, or mount it")
}

// ownGroup returns the group of this process, as a path below the mount.
func ownGroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("look for the own control group: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path, nil
		}
	}
	return "", errors.New("this process has no group of cgroup v2")
}

// delegated returns the nearest group above the process that a service manager has delegated to it: systemd marks it. A
// user who may write into the own group was given it, too. Root may write everywhere, so that says nothing.
func delegated(mount, own string) string {
	for path := own; path != "/" && path != "."; path = filepath.Dir(path) {
		dir := filepath.Join(mount, path)
		for _, name := range []string{"trusted.delegate", "user.delegate"} {
			var value [8]byte
			if n, err := unix.Getxattr(dir, name, value[:]); err == nil && string(value[:n]) == "1" {
				return dir
			}
		}
	}
	if filepath.Base(own) == leaf {
		own = filepath.Dir(own)
	}
	dir := filepath.Join(mount, own)
	if os.Geteuid() != 0 && own != "/" && unix.Access(dir, unix.W_OK) == nil && unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) == nil {
		return dir
	}
	return ""
}

// leave moves the processes of a group into a group of their own in it, so that its other groups can have limits.
func leave(dir string) error {
	own := filepath.Join(dir, leaf)
	if err := os.Mkdir(own, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make a control group: %w", err)
	}
	for range 10 {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return fmt.Errorf("read the processes of %s: %w", dir, err)
		}
		pids := strings.Fields(string(text))
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			// A process may have ended meanwhile.
			if err := os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte(pid), 0); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("move process %s into %s: %w", pid, own, err)
			}
		}
	}
	return fmt.Errorf("%s has new processes all the time: only the agent may start some there", dir)
}

// isGroup returns an error unless a directory is a group of cgroup v2.
func isGroup(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("%s is no directory of cgroup v2", dir)
	}
	return nil
}

// enable lets the groups in a group have limits, and returns which.
func enable(groups ...string) []string {
	var enabled []string
	for _, name := range wanted {
		ok := true
		for _, group := range groups {
			ok = ok && os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+name), 0) == nil
		}
		if ok {
			enabled = append(enabled, name)
		}
	}
	return enabled
}

// sweep removes the groups of agents whose data directory is gone.
func sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		group := filepath.Join(parent, e.Name())
		if dir := DataDir(group); dir != "" {
			if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
				removeEmpty(group)
			}
		}
	}
}

// DataDir returns the data directory of the agent that made a group; empty: no agent made it.
func DataDir(group string) string {
	value := make([]byte, unix.PathMax)
	n, err := unix.Getxattr(group, attribute, value)
	if err != nil {
		return ""
	}
	return string(slices.Clone(value[:n]))
}
