package main

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// session is one run of the program: the training loop and its reports.
type session struct {
	Options
	job  Job
	t    *trainer
	out  io.Writer
	stop <-chan os.Signal

	lastSave  int // step of the newest checkpoint
	toldStep  int
	toldAt    time.Time
	faultTold bool
}

func (s *session) run() error {
	s.lastSave, s.toldStep, s.toldAt = s.t.Step, s.t.Step, time.Now()
	s.phase("TRAINING")
	s.progress()
	for s.t.Step < s.Steps {
		if signal := s.rest(); signal != nil {
			fmt.Fprintf(s.out, "%v at step %d: saving and leaving\n", signal, s.t.Step)
			if err := s.save(); err != nil {
				return err
			}
			return &stoppedError{signal}
		}
		s.t.step()
		if s.t.Step%s.LogEvery == 0 || s.t.Step == s.Steps {
			s.tell()
		}
		if s.CheckpointEvery > 0 && s.t.Step%s.CheckpointEvery == 0 {
			if err := s.save(); err != nil {
				return err
			}
		}
	}
	if err := s.save(); err != nil {
		return err
	}
	s.phase("EVALUATING")
	held := s.t.evaluate()
	s.complain(s.job.metrics(map[string]any{"step": s.t.Step, "held_out_loss": held}))
	fmt.Fprintf(s.out, "done: step %d, loss %.4f, loss on text never seen %.4f\n", s.t.Step, s.t.Loss, held)
	if s.Sample > 0 {
		fmt.Fprintf(s.out, "it writes: %q\n", s.t.write(s.Sample))
	}
	return nil
}

// stoppedError is the error of a training that a signal stopped, after it saved a checkpoint.
type stoppedError struct{ signal os.Signal }

func (e *stoppedError) Error() string { return "stopped by a signal: " + e.signal.String() }

// code returns the exit code that a shell would report for the signal, and 0 for Mind's notice, because the program did
// what the notice asks for.
func (e *stoppedError) code() int {
	if number, ok := e.signal.(syscall.Signal); ok && number != syscall.SIGUSR1 {
		return 128 + int(number)
	}
	return 0
}

// rest waits for the delay of a step, and returns the signal that arrived meanwhile, nil if none did.
func (s *session) rest() os.Signal {
	if s.StepDelay <= 0 {
		select {
		case signal := <-s.stop:
			return signal
		default:
			return nil
		}
	}
	select {
	case signal := <-s.stop:
		return signal
	case <-time.After(s.StepDelay):
		return nil
	}
}

// tell reports the loss of the current step. The line in the log has the number of the step, so a reader of the log can
// see that no line is missing and none is there twice.
func (s *session) tell() {
	now := time.Now()
	speed := float64((s.t.Step-s.toldStep)*len(s.t.places)) / max(now.Sub(s.toldAt).Seconds(), 1e-9)
	s.toldStep, s.toldAt = s.t.Step, now
	fmt.Fprintf(s.out, "step %d/%d  loss %.4f  rate %.5f  %.0f chars/s\n", s.t.Step, s.Steps, s.t.Loss, rate(s.t.Step), speed)
	s.complain(s.job.metrics(map[string]any{
		"step": s.t.Step, "loss": s.t.Loss, "learning_rate": rate(s.t.Step), "tokens_per_second": speed,
	}))
	s.progress()
}

func (s *session) progress() {
	s.complain(s.job.event("progress", map[string]any{"step": s.t.Step, "total_steps": s.Steps}))
}

func (s *session) phase(name string) {
	s.complain(s.job.event("phase", map[string]any{"phase": name}))
}

// save writes a checkpoint of the current step, unless it was already written. If that fails the training must end,
// because users rely on its checkpoints.
func (s *session) save() error {
	if s.job.CheckpointDir == "" || s.t.Step == s.lastSave {
		return nil
	}
	if err := os.MkdirAll(s.job.CheckpointDir, 0o755); err != nil {
		return fmt.Errorf("making the checkpoint folder: %w", err)
	}
	s.phase("CHECKPOINTING")
	defer s.phase("TRAINING")
	path, err := s.t.save(s.job.CheckpointDir)
	if err != nil {
		return fmt.Errorf("saving the checkpoint of step %d: %w", s.t.Step, err)
	}
	s.lastSave = s.t.Step
	fmt.Fprintf(s.out, "saved %s\n", path)
	return nil
}

// complain prints the first error of writing metrics or events. The training continues without them.
func (s *session) complain(err error) {
	if err != nil && !s.faultTold {
		s.faultTold = true
		fmt.Fprintln(s.out, "cannot write metrics or events, and goes on without:", err)
	}
}
