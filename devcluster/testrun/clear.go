package testrun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/devcluster/proc"
)

// ignoreSignals makes the watcher ignore signals, because only the end of the run may end it, and SIGPIPE, because its
// output may have no reader any more.
func ignoreSignals() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
}

// clearUp ends the leftover processes of the run in dir and removes its leftover files.
func clearUp(dir string, inOrder bool) error {
	ended, err := endProcesses(dir)
	if len(ended) > 0 {
		fmt.Fprintf(os.Stderr, "testrun: killed what the run in %s left: %s\n", dir, strings.Join(ended, ", "))
	}
	// Runs inside this one have no processes any more, but may have left namespaces.
	errs := []error{err, sweepDead(dir), removeNamespaces(filepath.Base(dir)), removeGroups(dir), unmount(dir)}
	if inOrder {
		if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, os.RemoveAll(dir))...)
}

// patience is how long a killed process may take to end, which is long only if its disk does not answer.
const patience = time.Minute

// endProcesses kills the processes of a run until there are none, and returns their descriptions.
func endProcesses(dir string) (ended []string, err error) {
	for {
		left := processesOf(dir)
		if len(left) == 0 {
			return ended, nil
		}
		var errs []error
		for _, p := range left {
			ended = append(ended, fmt.Sprintf("%d (%s)", p.Pid, strings.Join(p.Strings("cmdline"), " ")))
			errs = append(errs, p.Kill())
		}
		giveUp := time.Now().Add(patience)
		for i, p := range left {
			if errs[i] == nil && !p.Ends(time.Until(giveUp)) {
				errs = append(errs, fmt.Errorf("process %d does not end after SIGKILL", p.Pid))
			}
		}
		if err := errors.Join(errs...); err != nil {
			return ended, err
		}
	}
}

// processesOf returns the marked processes of a run, and their descendants.
func processesOf(dir string) []proc.Process {
	all := slices.DeleteFunc(proc.All(), func(p proc.Process) bool { return p.Pid == os.Getpid() })
	of := map[int]bool{}
	for _, p := range all {
		if marked(dir, p.Strings("cmdline"), p.Strings("environ")) {
			of[p.Pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if of[p.Parent] && !of[p.Pid] {
				of[p.Pid], grown = true, true
			}
		}
	}
	return slices.DeleteFunc(all, func(p proc.Process) bool { return !of[p.Pid] || p.Zombie })
}

// marked reports whether a process has its temporary files in the directory of a run, or runs for an agent that has its
// data there. A process that only uses the directory, such as a shell, is not marked.
func marked(dir string, argv, environ []string) bool {
	return proc.RunsFor(dir, argv, environ) || slices.ContainsFunc(environ, func(v string) bool {
		return v == "TMPDIR="+dir || strings.HasPrefix(v, "TMPDIR="+dir+"/")
	})
}

// namespaces is the directory in which ip(8) keeps the names of network namespaces: each is a mount of the namespace
// over an empty file.
const namespaces = "/run/netns"

// removeNamespaces removes the network namespaces of a run, and with them the links that end there.
func removeNamespaces(run string) error {
	names, err := filepath.Glob(filepath.Join(namespaces, run+"-*"))
	errs := []error{err}
	for _, path := range names {
		err := unix.Unmount(path, unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) {
			err = nil // ip was killed before the mount
		}
		errs = append(errs, err, os.Remove(path))
	}
	return errors.Join(errs...)
}

// removeGroups removes the control groups of a run, which have no processes any more: its own, and those of its agents.
func removeGroups(dir string) error {
	run := filepath.Base(dir)
	var errs []error
	for _, below := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		groups, err := filepath.Glob(filepath.Join(below, run+"-*"))
		errs = append(errs, err)
		ofAgents, err := filepath.Glob(filepath.Join(below, "mind", "*"))
		errs = append(errs, err)
		for _, group := range ofAgents {
			if strings.HasPrefix(dataDir(group), dir+"/") {
				groups = append(groups, group)
			}
		}
		for _, group := range groups {
			var dirs []string
			err := filepath.WalkDir(group, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return err
			})
			errs = append(errs, err)
			for _, dir := range slices.Backward(dirs) {
				errs = append(errs, os.Remove(dir))
			}
		}
	}
	return errors.Join(errs...)
}

// dataDir returns the data directory of the agent to which a control group belongs: package agent/isolation notes it.
func dataDir(group string) string {
	value := make([]byte, unix.PathMax)
	n, err := unix.Getxattr(group, "user.mind.data_dir", value)
	if err != nil {
		return ""
	}
	return string(value[:n])
}

// unmount unmounts all file systems below a directory, the last one first.
func unmount(dir string) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("looking for mounts of the run: %w", err)
	}
	var errs []error
	lines := strings.Split(string(text), "\n")
	for _, line := range slices.Backward(lines) {
		const point = 4
		if fields := strings.Fields(line); len(fields) > point && strings.HasPrefix(fields[point], dir+"/") {
			errs = append(errs, unix.Unmount(fields[point], unix.MNT_DETACH))
		}
	}
	return errors.Join(errs...)
}
