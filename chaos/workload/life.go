package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Life is the record of one process of a job, which the process writes itself.
type Life struct {
	Job     string `json:"job"`
	Attempt int    `json:"attempt"`
	Rank    int    `json:"rank"`
	PID     int    `json:"pid"`
	Node    string `json:"node"`
	GPUs    string `json:"gpus"`
	// Start is when it began, in nanoseconds since the machine started.
	Start int64 `json:"start"`
	// From is the checkpoint that it resumed from, and Step the step of that checkpoint.
	From string `json:"from"`
	Step int    `json:"step"`

	// The last state that it recorded: when, the number of lines, and whether it ended by itself.
	Seen  int64 `json:"-"`
	Lines int   `json:"-"`
	Ended bool  `json:"-"`
}

func (l Life) String() string {
	return fmt.Sprintf("%s attempt %d rank %d (pid %d on %s)", l.Job, l.Attempt, l.Rank, l.PID, l.Node)
}

func (l Life) progressFile(dir string) string {
	return filepath.Join(jobDir(dir, l.Job), fmt.Sprintf("progress-%d-%d-%d", l.Attempt, l.Rank, l.PID))
}

// Lives reads the lives of a job, in the order of their starts.
func Lives(dir, job string) ([]Life, error) {
	text, err := os.ReadFile(filepath.Join(jobDir(dir, job), livesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Life
	for entry := range strings.Lines(string(text)) {
		if !strings.HasSuffix(entry, "\n") {
			break // the record is being written
		}
		var l Life
		if err := json.Unmarshal([]byte(entry), &l); err != nil {
			return nil, fmt.Errorf("reading the lives of %s: %w", job, err)
		}
		l.Seen = l.Start
		if text, err := os.ReadFile(l.progressFile(dir)); err == nil {
			var ended string
			if _, err := fmt.Sscan(string(text), &l.Seen, &l.Lines, &ended); err != nil {
				return nil, fmt.Errorf("reading the progress of %s: %q: %w", l, text, err)
			}
			l.Ended = ended == "ended"
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b Life) int { return int(a.Start - b.Start) })
	return all, nil
}

// Violations reads the violations that the lives of all jobs have recorded.
func Violations(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "jobs", "*", violationsFile))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
	}
	return all, nil
}

// Overlaps returns the lives of a job that overlapped although they must not: two of one rank, or two of different
// attempts. It also finds overlaps that the locks cannot detect: of ranks of a gang on different nodes.
func Overlaps(lives []Life) []string {
	var bad []string
	for i, a := range lives {
		for _, b := range lives[i+1:] {
			if a.Attempt == b.Attempt && a.Rank != b.Rank {
				continue
			}
			if b.Start <= a.Seen {
				bad = append(bad, fmt.Sprintf("%s was alive %d ms after the start of %s", a, (a.Seen-b.Start)/1e6, b))
			}
		}
	}
	return bad
}
