// Package proc lists the processes of this machine, and finds the ones that run for an agent with its data in a
// directory.
package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is the /proc entry of a process.
type Process struct {
	Pid, Parent, Session int
	// Started is when it was started, in ticks since the start of the machine. It distinguishes the process from later
	// ones with the same id.
	Started uint64
	Zombie  bool
}

// All lists all processes that this process may see.
func All() []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if p, ok := Of(pid); ok { // otherwise the process has ended meanwhile
			all = append(all, p)
		}
	}
	return all
}

// Of returns a process, which may be a zombie.
func Of(pid int) (Process, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return Process{}, false
	}
	return parseStat(string(text))
}

// parseStat parses "PID (NAME) STATE PARENT GROUP SESSION ..."; the name may contain spaces and parentheses.
func parseStat(text string) (Process, bool) {
	pid, rest, ok := strings.Cut(text, " (")
	end := strings.LastIndex(rest, ") ")
	if !ok || end < 0 {
		return Process{}, false
	}
	fields := strings.Fields(rest[end+2:])
	const started = 19
	if len(fields) <= started {
		return Process{}, false
	}
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	ticks, _ := strconv.ParseUint(fields[started], 10, 64)
	return Process{
		Pid: number(pid), Parent: number(fields[1]), Session: number(fields[3]), Started: ticks, Zombie: fields[0] == "Z" || fields[0] == "X",
	}, true
}

// Runs reports whether the process still runs, and its id was not reused.
func (p Process) Runs() bool {
	current, ok := Of(p.Pid)
	return ok && current.Started == p.Started && !current.Zombie
}

// Strings returns the strings in a file of the process: its command line ("cmdline") or its environment ("environ").
func (p Process) Strings(file string) []string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Pid), file))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimSuffix(text, []byte{0})), "\x00")
}

// RunsFor reports whether a process with this command line and environment is the shim or the task of an agent whose
// data is below dir. For shims the command line shows it, and for tasks the environment.
func RunsFor(dir string, argv, environ []string) bool {
	under := dir + "/"
	if len(argv) > 2 && argv[1] == "shim" {
		for _, arg := range argv[2:] {
			if strings.HasPrefix(strings.TrimPrefix(arg, "--dir="), under) {
				return true
			}
		}
	}
	for _, v := range environ {
		for _, name := range []string{"MIND_METRICS_FILE=", "MIND_EVENTS_FILE="} {
			if strings.HasPrefix(v, name+under) {
				return true
			}
		}
	}
	return false
}
