package users

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/scenario/result"
	"github.com/mindcoordinator/mind/chaos/workload"
)

// Check waits until all jobs of the fleet have ended and compares their state in the cluster with the evidence.
func (f *Fleet) Check(ctx context.Context, v *result.Result, mayReplace bool) error {
	v.Steady += len(f.All)
	v.ClientErrors += int(f.errors.Load())
	for _, j := range f.All {
		seen, err := f.rest.WaitEnded(ctx, j.ID)
		var refused *procs.Error
		if errors.As(err, &refused) && refused.HTTP == http.StatusNotFound {
			v.Lost = append(v.Lost, j.String())
			continue
		}
		if err != nil {
			return err
		}
		lives, err := workload.Lives(f.Dir, j.ID)
		if err != nil {
			return err
		}
		v.Replaced += seen.Attempt - 1
		v.Harmed = append(v.Harmed, harm(j, seen, lives, mayReplace)...)
		v.DoubleLive = append(v.DoubleLive, workload.Overlaps(lives)...)
		if err := f.checkLogs(ctx, v, j, lives); err != nil {
			return err
		}
		registered, err := f.rest.Checkpoints(ctx, j.ID)
		if err != nil {
			return err
		}
		v.Lineage = append(v.Lineage, descent(j, lives, registered)...)
	}
	f.readers.Wait()
	for _, j := range f.All {
		if j.followed == nil {
			continue
		}
		lives, err := workload.Lives(f.Dir, j.ID)
		if err != nil || len(lives) != 1 {
			continue // already reported
		}
		compareLines(v, lives[0], j.followed, "followed: ")
	}
	violations, err := workload.Violations(f.Dir)
	v.DoubleLive = append(v.DoubleLive, violations...)
	return err
}

// harm returns how a job was treated worse than promised.
func harm(j *Job, seen procs.Job, lives []workload.Life, mayReplace bool) []string {
	var bad []string
	say := func(format string, args ...any) { bad = append(bad, j.String()+" "+fmt.Sprintf(format, args...)) }
	state := "SUCCEEDED"
	if j.spec.Exit != 0 {
		state = "FAILED"
	}
	switch {
	case seen.State != state:
		say("is %s (%s: %s), it should be %s", seen.State, seen.ErrorType, seen.ErrorMessage, state)
	case seen.ExitCode == nil || *seen.ExitCode != j.spec.Exit:
		got := "none"
		if seen.ExitCode != nil {
			got = fmt.Sprint(*seen.ExitCode)
		}
		say("has exit code %s, its processes ended with %d", got, j.spec.Exit)
	}
	if seen.Attempt > 1 && !(j.Replaceable && mayReplace) {
		say("ran in %d attempts: nothing had happened to it", seen.Attempt)
	}
	count := map[[2]int]int{}
	ended := 0
	for _, l := range lives {
		if count[[2]int{l.Attempt, l.Rank}]++; count[[2]int{l.Attempt, l.Rank}] > 1 && !j.forgotten {
			say("was started twice as attempt %d, rank %d", l.Attempt, l.Rank)
		}
		if l.Attempt > seen.Attempt {
			say("has a process of attempt %d, the cluster knows of %d", l.Attempt, seen.Attempt)
		}
		if l.Attempt == seen.Attempt && l.Ended {
			ended++
		}
	}
	if ended != j.ranks {
		say("has %d processes that ended their work, it should be %d", ended, j.ranks)
	}
	return bad
}

func (f *Fleet) checkLogs(ctx context.Context, v *result.Result, j *Job, lives []workload.Life) error {
	byAttempt := map[int][]workload.Life{}
	for _, l := range lives {
		byAttempt[l.Attempt] = append(byAttempt[l.Attempt], l)
	}
	for attempt, all := range byAttempt {
		var served []procs.LogLine
		if j.forgotten && len(all) > 1 {
			continue // two lives have this number: the log of the first one is gone, with the lost entries
		}
		read := func() error {
			try, cancel := context.WithTimeout(ctx, 2*time.Minute)
			defer cancel()
			served = served[:0]
			return f.rest.Logs(try, j.ID, fmt.Sprintf("follow=false&attempt=%d", attempt), func(l procs.LogLine) { served = append(served, l) })
		}
		if err := read(); err != nil {
			v.Logs = append(v.Logs, fmt.Sprintf("%s attempt %d: %v", j, attempt, err))
			continue
		}
		for _, l := range all {
			var lines []string
			for _, s := range served {
				if s.Rank == l.Rank && s.Stream != "stderr" {
					lines = append(lines, s.Message)
				}
			}
			compareLines(v, l, lines, "")
		}
	}
	return nil
}

// compareLines compares served lines with the lines that a life printed.
func compareLines(v *result.Result, l workload.Life, served []string, how string) {
	lost, repeated, why := workload.Lines(l, served)
	v.Lines += l.Lines
	v.LinesLost += lost
	v.LinesRepeated += repeated
	if lost+repeated > 0 {
		v.Logs = append(v.Logs, how+why)
	}
}

// descent checks the lineage of the checkpoints of a job: they are registered in the order of attempts, none of an
// attempt after the next one has begun, and each attempt resumed from the newest earlier checkpoint.
func descent(j *Job, lives []workload.Life, registered []procs.Checkpoint) []string {
	var bad []string
	say := func(format string, args ...any) { bad = append(bad, j.String()+" "+fmt.Sprintf(format, args...)) }
	// Ids come from the log, so they are in the order of registration, which the list need not be.
	slices.SortFunc(registered, func(a, b procs.Checkpoint) int {
		if d := len(a.ID) - len(b.ID); d != 0 {
			return d
		}
		return strings.Compare(a.ID, b.ID)
	})
	// The nodes of a gang share the folder, and each of them may report a checkpoint in it.
	told := map[string]bool{}
	registered = slices.DeleteFunc(registered, func(c procs.Checkpoint) bool {
		again := told[c.Path]
		told[c.Path] = true
		return again
	})
	last := procs.Checkpoint{}
	for _, c := range registered {
		if c.Attempt < last.Attempt || (c.Attempt == last.Attempt && c.Step <= last.Step) {
			say("registered attempt %d step %d after attempt %d step %d", c.Attempt, c.Step, last.Attempt, last.Step)
		}
		last = c
	}
	for _, l := range lives {
		newest := procs.Checkpoint{}
		for _, c := range registered {
			if c.Attempt < l.Attempt {
				newest = c
			}
		}
		if l.From != newest.Path {
			say("attempt %d resumed from %q, the newest checkpoint was %q", l.Attempt, l.From, newest.Path)
		}
	}
	return bad
}

// Leaks waits until no process and no leased GPU of the attack is left, and records the ones that stay.
func (f *Fleet) Leaks(ctx context.Context, v *result.Result) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		var left []string
		for _, pid := range procs.Processes(f.Dir) {
			left = append(left, fmt.Sprintf("process %d", pid))
		}
		nodes, err := f.rest.Nodes(ctx)
		if err != nil {
			left = append(left, err.Error())
		}
		for _, n := range nodes {
			if n.GPUsFree < f.free[n.ID] {
				left = append(left, fmt.Sprintf("node %s (%s) has %d GPUs free, it had %d", n.ID, n.State, n.GPUsFree, f.free[n.ID]))
			}
		}
		if len(left) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			v.Leaked = append(v.Leaked, left...)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}
