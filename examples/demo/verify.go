package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The number of steps between two loss lines of charlm, by how much the loss must fall, and the longest time between
// two lines.
const (
	logEvery     = 10
	mustFallBy   = 1.0
	longestPause = 5 * time.Second
)

// verify checks every claim. If a claim does not hold, it returns an error that says what it found.
func (s *story) verify(ctx context.Context) error {
	for _, claim := range []struct {
		check func(context.Context) (string, error)
		about string
	}{
		{s.everyJobOnce, "jobs"},
		{s.oneAttempt, "training"},
		{s.everyLineOnce, "log"},
		{s.lossFell, "loss"},
		{s.everyCheckpoint, "checkpoints"},
		{s.everythingFree, "nodes"},
	} {
		found, err := claim.check(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", claim.about, err)
		}
		s.say("ok: %s", found)
		s.verified = append(s.verified, "ok: "+found)
	}
	return nil
}

// everyJobOnce waits until all jobs have ended, and compares the jobs of the cluster with those that were acknowledged.
func (s *story) everyJobOnce(ctx context.Context) (string, error) {
	for deadline := time.Now().Add(20 * time.Second); ; {
		var got struct {
			Jobs  []job `json:"jobs"`
			Total int   `json:"total_count"`
		}
		if err := s.rest.get(ctx, "/jobs?page_size=100", &got); err != nil {
			return "", err
		}
		var ids []string
		open := 0
		for _, j := range got.Jobs {
			ids = append(ids, j.ID)
			if j.Status != "COMPLETED" {
				open++
			}
			if j.over() && j.Status != "COMPLETED" {
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
		if err := s.sleep(ctx, 100*time.Millisecond); err != nil {
			return "", err
		}
	}
}

func (s *story) oneAttempt(ctx context.Context) (string, error) {
	var j job
	if err := s.rest.get(ctx, "/jobs/"+s.training, &j); err != nil {
		return "", err
	}
	if j.Attempt != 1 || j.ExitCode == nil || *j.ExitCode != 0 {
		return "", fmt.Errorf("attempt %d, exit code %v: it should have run once, to exit code 0", j.Attempt, j.ExitCode)
	}
	lines := s.watch.lines
	pause := time.Duration(0)
	for i := 1; i < len(lines); i++ {
		pause = max(pause, lines[i].at.Sub(lines[i-1].at))
	}
	if pause > longestPause {
		return "", fmt.Errorf("it stood still for %s", took(pause))
	}
	return fmt.Sprintf("the training ran in one attempt; between two lines of its log never more than %s passed", took(pause)), nil
}

// everyLineOnce compares the steps that the program must have printed with those that were streamed over the failover,
// and with those in the stored log.
func (s *story) everyLineOnce(ctx context.Context) (string, error) {
	var want []int
	for step := logEvery; step <= s.settings.steps; step += logEvery {
		want = append(want, step)
	}
	if got := stepsOf(s.watch.lines); !slices.Equal(got, want) {
		return "", fmt.Errorf("the stream delivered steps %v: there is a gap or a repeat", got)
	}
	var stored []line
	err := s.rest.stream(ctx, "/jobs/"+s.training+"/logs?follow=false", func(e event) error {
		l, ok, err := lossLine(e.data)
		if ok {
			stored = append(stored, l)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if got := stepsOf(stored); !slices.Equal(got, want) {
		return "", fmt.Errorf("the stored log has steps %v: there is a gap or a repeat", got)
	}
	return fmt.Sprintf("the log was streamed through the failover: %d numbered lines, no gap, no repeat", len(want)), nil
}

func stepsOf(lines []line) (steps []int) {
	for _, l := range lines {
		steps = append(steps, l.step)
	}
	return steps
}

func (s *story) lossFell(context.Context) (string, error) {
	first, last := s.watch.firstLoss(), s.watch.lastLoss()
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
	for step := int64(100); step <= int64(s.settings.steps); step += 100 {
		want = append(want, step)
	}
	if !slices.Equal(steps, want) {
		return "", fmt.Errorf("those of steps %v are registered; wanted %v", steps, want)
	}
	return fmt.Sprintf("%d checkpoints are registered, and each is on the disk", len(found)), nil
}

func (s *story) everythingFree(ctx context.Context) (string, error) {
	var got struct {
		Nodes []struct {
			ID    string `json:"node_id"`
			State string `json:"state"`
			GPUs  []any  `json:"gpus"`
			Free  int    `json:"gpus_free"`
			Tasks int    `json:"tasks"`
		} `json:"nodes"`
	}
	if err := s.rest.get(ctx, "/cluster/nodes", &got); err != nil {
		return "", err
	}
	gpus := 0
	for _, n := range got.Nodes {
		if n.State != "READY" || n.Free != len(n.GPUs) || n.Tasks != 0 {
			return "", fmt.Errorf("%s is %s with %d of %d GPUs free and %d tasks", n.ID, n.State, n.Free, len(n.GPUs), n.Tasks)
		}
		gpus += n.Free
	}
	if gpus != 16 {
		return "", fmt.Errorf("%d GPUs are there, of 16", gpus)
	}
	return fmt.Sprintf("both nodes are ready, all %d GPUs are free again", gpus), nil
}
