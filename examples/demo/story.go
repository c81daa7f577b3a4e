package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/examples/stage"
)

// story runs the demonstration, and keeps the results for its end.
type story struct {
	stage.Scene
	settings stage.Settings

	training  string   // id of the training job
	submitted []string // ids of all jobs
	watch     *stage.Watch

	killed    string
	status    string
	newLeader time.Duration // from the kill to a new leader
	waited    time.Duration // how long a write that began at the kill took
	usual     time.Duration // how long a write takes otherwise
	steps     [2]int64      // at the kill, and when the write was answered
	verified  []string
}

func (s *story) tell(ctx context.Context) error {
	leader, err := stage.Leader(ctx, s.REST)
	if err != nil {
		return err
	}
	s.Say("ready in %s: coordinators c1, c2, c3, two nodes with 8 simulated GPUs each, a gateway", stage.Took(s.Cluster.ReadyIn))
	s.Say("%s leads; the other two hold copies of every job and lease", leader)

	s.Title("A training job")
	if err := s.submit(ctx); err != nil {
		return err
	}
	s.watch = stage.NewWatch(s.REST, s.training)
	stop := s.watch.Start(ctx, s.live)
	defer stop()
	if err := s.until(ctx, "the training runs", func(j *stage.Job) bool { return s.watch.Step() > 0 }); err != nil {
		return err
	}
	if err := s.firstCheckpoint(ctx); err != nil {
		return err
	}
	if err := s.until(ctx, "the training is well under way", func(*stage.Job) bool { return s.watch.Step() >= int64(s.settings.Steps)*4/10 }); err != nil {
		return err
	}

	s.Title("The leader dies")
	if err := s.killLeader(ctx); err != nil {
		return err
	}

	s.Title("The training ends")
	if err := s.until(ctx, "the training ends", (*stage.Job).Over); err != nil {
		return err
	}
	if err := s.watch.Wait(ctx); err != nil {
		return err
	}
	s.Say("step %d of %d, loss %.3f (it began at %.3f)", s.watch.Step(), s.settings.Steps, s.watch.LastLoss(), s.watch.FirstLoss())

	s.Title("Was anything lost?")
	return s.verify(ctx)
}

func (s *story) live(step int64, loss float64) {
	width := 30
	done := int(int64(width) * step / int64(s.settings.Steps))
	s.Now("training  [%s%s]  step %3d  loss %.3f", strings.Repeat("#", done), strings.Repeat(".", width-done), step, loss)
}

// submit submits the training with the command line, as a user would.
func (s *story) submit(ctx context.Context) error {
	args := []string{
		"submit", "--name", "charlm", "--gpus", "2", "--idempotency-key", "demo-training", "--cwd", s.Dir, "--", s.settings.Charlm,
		"--steps", fmt.Sprint(s.settings.Steps), "--checkpoint-every", "100", "--step-delay", s.settings.Delay.String(),
	}
	began := time.Now()
	var err error
	if s.training, err = s.Cluster.Mind(ctx, args...); err != nil {
		return err
	}
	s.submitted = append(s.submitted, s.training)
	s.Say("$ mind submit --gpus 2 -- charlm --steps %d", s.settings.Steps)
	s.Say("%s is accepted and replicated (%s)", s.training, stage.Took(time.Since(began)))
	return nil
}

// until waits until happened accepts the training job, and prints each change of its status meanwhile.
func (s *story) until(ctx context.Context, what string, happened func(*stage.Job) bool) error {
	for {
		var j stage.Job
		if err := s.REST.Get(ctx, "/jobs/"+s.training, &j); err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
		s.tellStatus(&j)
		if j.Status == "FAILED" || j.Status == "CANCELLED" {
			return fmt.Errorf("the training is %s: %s", j.Status, j.Error)
		}
		if happened(&j) {
			return nil
		}
		if j.Over() {
			return fmt.Errorf("the training is %s before %s", j.Status, what)
		}
		if err := s.Cluster.Sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
	}
}

func (s *story) tellStatus(j *stage.Job) {
	if j.Status == s.status || j.Status == "CHECKPOINTING" {
		return // takes milliseconds; a line is printed when the checkpoint is registered
	}
	s.status = j.Status
	where := ""
	if len(j.Nodes) > 0 && !j.Over() {
		where = fmt.Sprintf(" on %s with %d GPUs", strings.Join(j.Nodes, ", "), len(j.GPUs))
	}
	s.Say("%s%s", j.Status, where)
}

type checkpoint struct {
	ID   string `json:"checkpoint_id"`
	Step int64  `json:"step"`
	Path string `json:"path"`
}

func (s *story) checkpoints(ctx context.Context) ([]checkpoint, error) {
	var got struct {
		Checkpoints []checkpoint `json:"checkpoints"`
	}
	err := s.REST.Get(ctx, "/jobs/"+s.training+"/checkpoints", &got)
	slices.SortFunc(got.Checkpoints, func(a, b checkpoint) int { return int(a.Step - b.Step) })
	return got.Checkpoints, err
}

func (s *story) firstCheckpoint(ctx context.Context) error {
	for deadline := time.Now().Add(time.Minute); ; {
		found, err := s.checkpoints(ctx)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			s.Say("checkpoint of step %d is registered: %s", found[0].Step, found[0].ID)
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("no checkpoint was registered within a minute")
		}
		if err := s.Cluster.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func (s *story) summary() {
	s.Title("In short")
	for _, line := range s.verified {
		s.Write("          " + line + "\n")
	}
	s.Write(fmt.Sprintf("          new leader after %s; a write that met the failover waited %s (otherwise %s)\n\nAll claims hold, after %s.\n",
		stage.Took(s.newLeader), stage.Took(s.waited), stage.Took(s.usual), stage.Took(s.Told())))
}
