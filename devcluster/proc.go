package devcluster

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// process is the /proc entry of a process.
type process struct {
	pid, parent, session int
	zombie               bool
}

// processes lists all processes that this process may see.
func processes() []process {
	dirs, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var all []process
	for _, stat := range dirs {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it ended meanwhile
		}
		if p, ok := parseStat(string(text)); ok {
			all = append(all, p)
		}
	}
	return all
}

// parseStat parses "PID (NAME) STATE PARENT GROUP SESSION ..."; the name may contain spaces and parentheses.
func parseStat(text string) (process, bool) {
	pid, rest, ok := strings.Cut(text, " (")
	end := strings.LastIndex(rest, ") ")
	if !ok || end < 0 {
		return process{}, false
	}
	fields := strings.Fields(rest[end+2:])
	if len(fields) < 4 {
		return process{}, false
	}
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	return process{
		pid: number(pid), parent: number(fields[1]), session: number(fields[3]), zombie: fields[0] == "Z" || fields[0] == "X",
	}, true
}

func (p process) strings(file string) []string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), file))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimSuffix(text, []byte{0})), "\x00")
}
