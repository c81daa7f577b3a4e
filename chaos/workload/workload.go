// Package workload has the programs of the jobs of an attack, which leave evidence, and reads that evidence.
//
// The evidence is kept outside of Mind, in a folder on disk: when each process of a job started (by a clock that
// neither stops nor steps), when it was last alive, how many lines it printed and with which hash, and which GPUs it
// had. Each process holds a lock on its rank and on each of its GPUs. A lock that is already taken shows two processes
// where only one may be; the second one records that. Locks end with their process, however it ends.
//
// Not guaranteed: anything about nodes that do not share a file system. A life that is killed within its first
// milliseconds leaves no evidence.
package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Spec is one job of an attack.
type Spec struct {
	// Dir holds the evidence of all jobs.
	Dir string
	// Group is the group for Finish; empty: only a Finish of all groups ends the job.
	Group string
	// Length is how long the job works; 0: until Finish.
	Length time.Duration
	// Every is the time of a step, in which the job prints a line and records that it is alive; default 200 ms.
	Every time.Duration
	// CheckpointEvery is the number of steps between checkpoints; 0: none.
	CheckpointEvery int
	// Weights, if set, is the number of bytes that each checkpoint has beside its lineage; see CheckCheckpoint. The
	// files and folders of such a checkpoint are synced before and after it gets its name, so it survives a power cut.
	Weights int
	// Exit is the exit code of a job that has finished its work.
	Exit int
	// Print, if set, is the number of lines that the job prints over Length, and is all of its work. Their sum is the
	// evidence.
	Print int
}

// Command is the hidden command of mind that runs a job.
const Command = "workload"

// Argv returns the command line of the job.
func (s Spec) Argv(mind string) []string {
	return []string{
		mind, "chaos", Command, "--dir", s.Dir, "--group", s.Group, "--length", s.Length.String(), "--every", s.Every.String(),
		"--checkpoint-every", strconv.Itoa(s.CheckpointEvery), "--weights", strconv.Itoa(s.Weights), "--exit", strconv.Itoa(s.Exit),
		"--print", strconv.Itoa(s.Print),
	}
}

// everybody is the group of all jobs.
const everybody = "everybody"

// Finish makes the jobs of a group end their work; an empty group stands for all jobs.
func Finish(dir, group string) error {
	if group == "" {
		group = everybody
	}
	if err := os.MkdirAll(filepath.Join(dir, "finish"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "finish", group), nil, 0o644)
}

func (s Spec) finished() bool {
	for _, group := range []string{everybody, s.Group} {
		if group != "" {
			if _, err := os.Stat(filepath.Join(s.Dir, "finish", group)); err == nil {
				return true
			}
		}
	}
	return false
}

// Names of the files with the evidence.
const (
	livesFile      = "lives.jsonl"
	violationsFile = "violations"
	lineageFile    = "lineage"
	linePrefix     = "evidence"
)

func jobDir(dir, job string) string { return filepath.Join(dir, "jobs", job) }

// line returns line n of a life, with a hash over it and all lines before it.
func line(job string, attempt, rank, n int, before string) (text, hash string) {
	what := fmt.Sprintf("%s %s %d %d %d", linePrefix, job, attempt, rank, n)
	sum := sha256.Sum256([]byte(before + " " + what))
	hash = hex.EncodeToString(sum[:8])
	return what + " " + hash, hash
}

// Lines compares the served log of a life with the life's own count. The last line of a killed life may have been
// printed and not counted.
func Lines(l Life, served []string) (lost, repeated int, why string) {
	next, hash := 0, ""
	for _, text := range served {
		fields := strings.Fields(text)
		if len(fields) != 6 || fields[0] != linePrefix {
			continue
		}
		n, err := strconv.Atoi(fields[4])
		if err != nil || fields[1] != l.Job || fields[2] != strconv.Itoa(l.Attempt) || fields[3] != strconv.Itoa(l.Rank) {
			return lost, repeated + 1, fmt.Sprintf("%s: %q is of another life", l, text)
		}
		switch {
		case n < next:
			repeated++
			why = fmt.Sprintf("%s: line %d came again", l, n)
			continue
		case n > next:
			lost += n - next
			why = fmt.Sprintf("%s: lines %d to %d are missing", l, next, n-1)
			next, hash = n+1, fields[5]
			continue
		}
		var want string
		want, hash = line(l.Job, l.Attempt, l.Rank, n, hash)
		if text != want {
			lost++
			why = fmt.Sprintf("%s: line %d is %q, but was printed as %q", l, n, text, want)
			hash = fields[5]
		}
		next++
	}
	if next < l.Lines {
		lost += l.Lines - next
		why = fmt.Sprintf("%s: the last %d of %d lines are missing", l, l.Lines-next, l.Lines)
	}
	if next > l.Lines+1 || (l.Ended && next > l.Lines) {
		repeated += next - l.Lines
		why = fmt.Sprintf("%s: %d lines were served, %d were printed", l, next, l.Lines)
	}
	return lost, repeated, why
}
