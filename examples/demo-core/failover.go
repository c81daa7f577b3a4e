package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mindcoordinator/mind/examples/stage"
)

// target is the leader, ready to be killed.
func (s *story) target(ctx context.Context) (stage.Target, error) {
	leader, err := stage.Leader(ctx, s.REST)
	if err != nil {
		return stage.Target{}, err
	}
	return s.Cluster.Target(leader)
}

// killDuringTraining kills the leader while the job of the first step runs.
func (s *story) killDuringTraining(ctx context.Context) error {
	dead, err := s.target(ctx)
	if err != nil {
		return err
	}
	step := s.watch.Step()
	if err := dead.Kill(); err != nil {
		return fmt.Errorf("killing the leader: %w", err)
	}
	s.Say("kill -9 %d: %s, the leader, is gone at step %d of the training", dead.Pid, dead.ID, step)
	if s.failovers[0], err = s.over(ctx, dead, time.Now()); err != nil {
		return err
	}
	if err := s.trained(ctx, int(step)+1); err != nil {
		return err
	}
	s.Say("the training went on meanwhile: from step %d to step %d", step, s.watch.Step())
	id, err := s.waitsFor(ctx, "train", "job")
	if err != nil {
		return err
	}
	if id != s.training {
		return fmt.Errorf("the execution waits for %s: it has forgotten %s", id, s.training)
	}
	s.Say("%s knows that %s waits for %s", s.failovers[0].next, s.execution, id)
	return s.revive(ctx, dead)
}

// over waits until another coordinator leads, and measures a call that begins at once.
func (s *story) over(ctx context.Context, dead stage.Target, killed time.Time) (f failover, err error) {
	f.dead = dead
	type result struct {
		waited time.Duration
		err    error
	}
	answered := make(chan result, 1)
	go func() {
		waited, err := s.echo(ctx)
		answered <- result{waited, err}
	}()
	f.next, f.leads, err = s.Cluster.Successor(ctx, dead.ID, killed)
	got := <-answered
	if err = errors.Join(err, got.err); err != nil {
		return f, err
	}
	f.waited = got.waited
	s.Say("%s leads, %s after the kill", f.next, stage.Took(f.leads))
	s.Say("a flow that was called at the kill has its output: its client waited %s and saw no error", stage.Took(f.waited))
	return f, nil
}

// killAfterAnswer answers the question, and kills the leader as soon as the answer is acknowledged.
func (s *story) killAfterAnswer(ctx context.Context) error {
	dead, err := s.target(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	err = s.answer(ctx, "publish", &s.question)
	acknowledged := time.Now()
	if err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	if err := dead.Kill(); err != nil {
		return fmt.Errorf("killing the leader: %w", err)
	}
	killed := time.Now()
	s.Say("POST /checkpoints/%s/resolve: 200 after %s, it is %s: %s", s.question.ID, stage.Took(acknowledged.Sub(began)), s.question.Status, s.question.Resolution)
	s.Say("kill -9 %d: %s, the leader, is gone, %d µs after the answer was acknowledged", dead.Pid, dead.ID, killed.Sub(acknowledged).Microseconds())
	if s.failovers[1], err = s.over(ctx, dead, killed); err != nil {
		return err
	}
	if _, err := s.until(ctx, "it is over", (*execution).over); err != nil {
		return err
	}
	events, err := s.happened(ctx)
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.Type == "model.published" {
			s.published = e.Timestamp.Sub(killed)
		}
	}
	if s.published >= 0 {
		s.Say("%s published the model, %s after the kill", s.failovers[1].next, stage.Took(s.published))
	} else {
		s.Say("%s had published the model %d µs before: the kill came too late to be between the answer and its effect", dead.ID, -s.published.Microseconds())
	}
	return s.revive(ctx, dead)
}

func (s *story) answer(ctx context.Context, option string, into *decision) error {
	return s.REST.Do(ctx, http.MethodPost, api+"/checkpoints/"+s.question.ID+"/resolve", "", map[string]any{"resolution": option, "comment": "good enough"}, into)
}

// revive starts the killed coordinator again and waits until it has caught up.
func (s *story) revive(ctx context.Context, dead stage.Target) error {
	after, err := s.Cluster.Revive(ctx, dead)
	if err == nil {
		s.Say("%s is started again, and has caught up %s later", dead.ID, stage.Took(after))
	}
	return err
}
