package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/examples/stage"
)

// By how much the loss must fall, and the longest time between two loss lines.
const (
	mustFallBy   = 1.0
	longestPause = 5 * time.Second
)

// verify checks every claim. If a claim does not hold, it returns an error that says what it found.
func (s *story) verify(ctx context.Context) error {
	var err error
	s.verified, err = s.Verify(ctx, []stage.Claim{
		{About: "jobs", Check: s.everyJobOnce},
		{About: "training", Check: s.oneAttempt},
		{About: "log", Check: func(ctx context.Context) (string, error) { return s.watch.EveryLineOnce(ctx, s.settings.Steps) }},
		{About: "loss", Check: s.lossFell},
		{About: "checkpoints", Check: s.everyCheckpoint},
		{About: "nodes", Check: func(ctx context.Context) (string, error) { return stage.EverythingFree(ctx, s.REST) }},
	})
	return err
}

// everyJobOnce waits until all jobs have ended, and compares the jobs of the cluster with those that were acknowledged.
func (s *story) everyJobOnce(ctx context.Context) (string, error) {
	for deadline := time.Now().Add(20 * time.Second); ; {
		var got struct {
			Jobs  []stage.Job `json:"jobs"`
			Total int         `json:"total_count"`
		}
		if err := s.REST.Get(ctx, "/jobs?page_size=100", &got); err != nil {
			return "", err
		}
		var ids []string
		open := 0
		for _, j := range got.Jobs {
			ids = append(ids, j.ID)
			if j.Status != "COMPLETED" {
				open++
			}
			if j.Over() && j.Status != "COMPLETED" {
				return "", fmt.Errorf("%s (%s) is %s: %s", j.ID, j.Name, j.Status, j.Error)
			}
		}
		slices.Sort(ids)
		want := slices.Sorted(slices.Values(s.submitted))
		if !slices.Equal(ids, want) || got.Total != len(want) {
			return "", fmt.Errorf("the cluster has %d jobs %v, and %d were acknowledged: %v", got.Total, ids, len(want), want)
		}
		if open == 0 {
			return fmt.Sprintf("%d jobs were acknowledged, and each is there once and completed", len(want)), nil
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("%d jobs have not completed 20 s after the training", open)
		}
		if err := s.Cluster.Sleep(ctx, 100*time.Millisecond); err != nil {
			return "", err
		}
	}
}

func (s *story) oneAttempt(ctx context.Context) (string, error) {
	var j stage.Job
	if err := s.REST.Get(ctx, "/jobs/"+s.training, &j); err != nil {
		return "", err
	}
	if j.Attempt != 1 || j.ExitCode == nil || *j.ExitCode != 0 {
		return "", fmt.Errorf("attempt %d, exit code %v: it should have run once, to exit code 0", j.Attempt, j.ExitCode)
	}
	lines := s.watch.Lines
	pause := time.Duration(0)
	for i := 1; i < len(lines); i++ {
		pause = max(pause, lines[i].At.Sub(lines[i-1].At))
	}
	if pause > longestPause {
		return "", fmt.Errorf("it stood still for %s", stage.Took(pause))
	}
	return fmt.Sprintf("the training ran in one attempt; between two lines of its log never more than %s passed", stage.Took(pause)), nil
}

func (s *story) lossFell(context.Context) (string, error) {
	first, last := s.watch.FirstLoss(), s.watch.LastLoss()
	if first-last < mustFallBy {
		return "", fmt.Errorf("it went from %.3f to %.3f", first, last)
	}
	return fmt.Sprintf("the loss fell from %.3f to %.3f", first, last), nil
}

func (s *story) everyCheckpoint(ctx context.Context) (string, error) {
	found, err := s.checkpoints(ctx)
	if err != nil {
		return "", err
	}
	var steps, want []int64
	for _, c := range found {
		steps = append(steps, c.Step)
		if _, err := os.Stat(filepath.Join(c.Path, "state.bin")); err != nil {
			return "", fmt.Errorf("%s is registered and not there: %w", c.ID, err)
		}
	}
	for step := int64(100); step <= int64(s.settings.Steps); step += 100 {
		want = append(want, step)
	}
	if !slices.Equal(steps, want) {
		return "", fmt.Errorf("those of steps %v are registered; wanted %v", steps, want)
	}
	return fmt.Sprintf("%d checkpoints are registered, and each is on the disk", len(found)), nil
}
