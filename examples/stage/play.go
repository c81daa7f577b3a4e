package stage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// Settings are the flags of a story about a training.
type Settings struct {
	// Mind and Charlm are the programs.
	Mind, Charlm string
	// Steps is how long the training is, Delay the pause after each step.
	Steps int
	Delay time.Duration
	// Keep leaves the data directory.
	Keep bool
}

// Scene is the cluster of a story, ready to be used.
type Scene struct {
	*Teller
	Cluster *Cluster
	REST    *REST
	// Dir is removed when the story is over.
	Dir string
}

// limit bounds a story, so that one that hangs says so.
const limit = 4 * time.Minute

// Play reads the flags of a story, to which the caller may have added some, runs it, and returns the exit code. s has the defaults.
func Play(name string, s *Settings, run func(ctx context.Context) error) int {
	flag.StringVar(&s.Mind, "mind", "bin/mind", "the mind `binary`")
	flag.StringVar(&s.Charlm, "charlm", "bin/charlm", "the `program` that trains")
	flag.IntVar(&s.Steps, "steps", s.Steps, "steps of the training, a multiple of 100")
	flag.DurationVar(&s.Delay, "step-delay", s.Delay, "pause after each step, so that the training leaves the cores to the cluster")
	flag.BoolVar(&s.Keep, "keep", false, "keep the data directory")
	flag.Parse()
	if s.Steps < 200 || s.Steps%100 != 0 {
		fmt.Fprintf(os.Stderr, "%s: -steps must be a multiple of 100, and 200 at least\n", name)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the story took more than %s", limit))
	defer cancel()
	if err := run(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		fmt.Fprintf(os.Stderr, "\n%s: FAILED: %v\n", name, err)
		return 1
	}
	return 0
}

// Run starts a cluster, has a story told on it, and stops it. tell also returns what is printed when nothing is left of the cluster.
// From here on the programs in s have absolute paths: jobs run in other directories.
func (s *Settings) Run(ctx context.Context, name string, tell func(ctx context.Context, at Scene) (summary func(), err error)) (err error) {
	for _, path := range []*string{&s.Mind, &s.Charlm} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
		if _, err := os.Stat(*path); err != nil {
			return fmt.Errorf("%w: build it with `make %s`", err, name)
		}
	}
	dir, err := os.MkdirTemp("", "mind-demo-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil || s.Keep {
			fmt.Fprintln(os.Stderr, "the data directory, with all logs, is left in", dir)
			return
		}
		err = os.RemoveAll(dir)
	}()

	t := NewTeller(os.Stdout)
	t.Title("A cluster of three")
	c, err := Start(ctx, s.Mind, filepath.Join(dir, "data"), filepath.Join(dir, "mind-dev.log"))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop(context.Background()))
		}
	}()
	summary, err := tell(ctx, Scene{Teller: t, Cluster: c, REST: NewREST(c.Info), Dir: dir})
	if err != nil {
		return err
	}

	t.Title("The end")
	began := time.Now()
	if err := c.Stop(ctx); err != nil {
		return err
	}
	t.Say("everything stopped in %s; no process is left", Took(time.Since(began)))
	summary()
	return nil
}
