package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mindcoordinator/mind/examples/stage"
)

// probe submits a small job with an idempotency key, and returns how long the answer took.
func (s *story) probe(ctx context.Context, n int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	name := fmt.Sprintf("probe-%d", n)
	body := map[string]any{"name": name, "command_config": map[string]any{"argv": []string{"true"}, "cwd": s.Dir}}
	var made stage.Job
	began := time.Now()
	if err := s.REST.Do(ctx, http.MethodPost, "/jobs", "demo-"+name, body, &made); err != nil {
		return 0, fmt.Errorf("submitting %s: %w", name, err)
	}
	s.submitted = append(s.submitted, made.ID)
	return time.Since(began), nil
}

// killLeader kills the leader, and measures the time until there is a new leader, and the wait of a write that is sent
// at the moment of the kill.
func (s *story) killLeader(ctx context.Context) error {
	var err error
	for n := range 3 {
		if s.usual, err = s.probe(ctx, n+1); err != nil {
			return err
		}
	}
	s.Say("a write takes %s", stage.Took(s.usual))
	if s.killed, err = stage.Leader(ctx, s.REST); err != nil {
		return err
	}
	s.steps[0] = s.watch.Step()
	dead, err := s.Cluster.Target(s.killed)
	if err == nil {
		err = dead.Kill()
	}
	if err != nil {
		return fmt.Errorf("killing the leader: %w", err)
	}
	began := time.Now()
	s.Say("kill -9 %d: %s, the leader, is gone; at this moment a job is submitted", dead.Pid, s.killed)

	type result struct {
		waited time.Duration
		err    error
	}
	answered := make(chan result, 1)
	go func() {
		waited, err := s.probe(ctx, 4)
		answered <- result{waited, err}
	}()
	next, after, err := s.Cluster.Successor(ctx, s.killed, began)
	got := <-answered
	if err = errors.Join(err, got.err); err != nil {
		return err
	}
	s.newLeader, s.waited = after, got.waited
	s.Say("%s leads, %s after the kill", next, stage.Took(s.newLeader))
	s.Say("the job that was submitted meanwhile is accepted: its client waited %s and saw no error", stage.Took(s.waited))
	if s.steps[1] = s.watch.Step(); s.steps[1] == s.steps[0] {
		if err := s.until(ctx, "the training goes on", func(*stage.Job) bool { return s.watch.Step() > s.steps[0] }); err != nil {
			return err
		}
		s.steps[1] = s.watch.Step()
	}
	s.Say("the training went on meanwhile: from step %d to step %d", s.steps[0], s.steps[1])
	if _, err := s.probe(ctx, 5); err != nil {
		return err
	}
	return s.revive(ctx, dead)
}

// revive starts the killed coordinator again and waits until it has caught up.
func (s *story) revive(ctx context.Context, dead stage.Target) error {
	after, err := s.Cluster.Revive(ctx, dead)
	if err == nil {
		s.Say("%s is started again, and has caught up %s later", dead.ID, stage.Took(after))
	}
	return err
}
