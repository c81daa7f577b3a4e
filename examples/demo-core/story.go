package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/examples/stage"
)

// story runs the demonstration, and keeps the results for its end.
type story struct {
	stage.Scene
	settings

	execution string
	training  string // id of the training job
	watch     *stage.Watch
	question  decision
	calls     int // of the flow echo
	usual     time.Duration
	failovers [2]failover
	published time.Duration // from the second kill to the event of the publication
	verified  []string
}

// failover is how a leader died and what that cost.
type failover struct {
	dead   stage.Target
	next   string
	leads  time.Duration // from the kill to a new leader
	waited time.Duration // how long a call took that began at the kill
}

func (s *story) tell(ctx context.Context) error {
	leader, err := stage.Leader(ctx, s.REST)
	if err != nil {
		return err
	}
	s.Say("ready in %s: coordinators c1, c2, c3, two nodes with 8 simulated GPUs each, a gateway", stage.Took(s.Cluster.ReadyIn))
	s.Say("%s leads; the other two hold copies of every execution, job and question", leader)

	s.Title("A flow: train, evaluate, ask, publish")
	if err := s.invoke(ctx); err != nil {
		return err
	}
	if s.training, err = s.waitsFor(ctx, "train", "job"); err != nil {
		return err
	}
	s.Say("its first step is the job %s", s.training)
	s.watch = stage.NewWatch(s.REST, s.training)
	stop := s.watch.Start(ctx, s.live)
	defer stop()
	if err := s.trained(ctx, 1); err != nil {
		return err
	}
	for range 3 {
		if s.usual, err = s.echo(ctx); err != nil {
			return err
		}
	}
	s.Say("a call of a small flow takes %s, from the request to its output", stage.Took(s.usual))
	if err := s.trained(ctx, s.Steps*4/10); err != nil {
		return err
	}

	s.Title("The leader dies while the training runs")
	if err := s.killDuringTraining(ctx); err != nil {
		return err
	}

	s.Title("The training ends, the model is scored, a person is asked")
	if s.question, err = s.asked(ctx); err != nil {
		return err
	}
	if err := s.watch.Wait(ctx); err != nil {
		return err
	}
	s.Say("the training reached step %d of %d, loss %.3f (it began at %.3f)", s.watch.Step(), s.Steps, s.watch.LastLoss(), s.watch.FirstLoss())
	s.Say("%s asks: %s", s.question.ID, s.question.Prompt)
	found, err := stage.EverythingFree(ctx, s.REST)
	if err != nil {
		return err
	}
	s.Say("while it waits for an answer it costs nothing: %s", found)

	s.Title("A person answers, and the leader dies at once")
	if err := s.killAfterAnswer(ctx); err != nil {
		return err
	}

	s.Title("Was anything lost, or done twice?")
	return s.verify(ctx)
}

func (s *story) live(step int64, loss float64) {
	width := 30
	done := int(int64(width) * step / int64(s.Steps))
	s.Now("training  [%s%s]  step %3d  loss %.3f", strings.Repeat("#", done), strings.Repeat(".", width-done), step, loss)
}

// invoke makes a Core of the program with the command line, as a user would, and starts an execution over REST.
func (s *story) invoke(ctx context.Context) error {
	file := filepath.Join(s.Dir, "publish.yaml")
	if err := os.WriteFile(file, program, 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"flow", "validate", file},
		{"launchers", "set", "EVALUATION", "--", s.Charlm, "-evaluate", "held-out"},
		{"core", "create", "-f", file, "--start"},
	} {
		if _, err := s.Cluster.Mind(ctx, args...); err != nil {
			return err
		}
		s.Say("$ mind %s", strings.NewReplacer(s.Dir+"/", "", s.Charlm, filepath.Base(s.Charlm)).Replace(strings.Join(args, " ")))
	}
	input := map[string]any{"charlm": s.Charlm, "dir": s.Dir, "steps": s.Steps, "pause": s.Delay.String(), "wanted": s.wanted}
	began := time.Now()
	e, err := s.call(ctx, "main", "demo-main", input, 0)
	if err != nil {
		return err
	}
	s.execution = e.ID
	s.Say("POST /cores/publish/invoke: %s is accepted and replicated (%s)", e.ID, stage.Took(time.Since(began)))
	return nil
}

// echo calls the small flow, and returns how long that took, with its execution.
func (s *story) echo(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	s.calls++
	n := s.calls
	began := time.Now()
	e, err := s.call(ctx, "echo", fmt.Sprintf("demo-echo-%d", n), map[string]any{"n": n}, 25)
	if err != nil {
		return 0, err
	}
	if e.Status != "completed" || e.Output != float64(n) {
		return 0, fmt.Errorf("%s of the flow echo is %s with the output %v: wanted completed, %d", e.ID, e.Status, e.Output, n)
	}
	return time.Since(began), nil
}

// trained waits until the training has reached a step.
func (s *story) trained(ctx context.Context, step int) error {
	for s.watch.Step() < int64(step) {
		var j stage.Job
		if err := s.REST.Get(ctx, "/jobs/"+s.training, &j); err != nil {
			return err
		}
		if j.Over() {
			return fmt.Errorf("the training is %s before step %d: %s", j.Status, step, j.Error)
		}
		if err := s.Cluster.Sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for step %d of the training: %w", step, err)
		}
	}
	return nil
}

func (s *story) summary() {
	s.Title("In short")
	for _, line := range s.verified {
		s.Write("          " + line + "\n")
	}
	for i, f := range s.failovers {
		s.Write(fmt.Sprintf("          %s killed: %s led after %s; a call that met the failover took %s (otherwise %s)\n",
			[]string{"while it trained,", "after the answer,"}[i]+" "+f.dead.ID, f.next, stage.Took(f.leads), stage.Took(f.waited), stage.Took(s.usual)))
	}
	s.Write(fmt.Sprintf("\nAll claims hold, after %s.\n", stage.Took(s.Told())))
}
