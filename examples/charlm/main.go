// Command charlm trains a small character language model, in pure Go, on one core. `make demo` runs it as a job. It is
// an example of how a training program should behave under Mind:
//
//   - it appends metrics and events to the files that Mind names in the environment;
//   - it writes each checkpoint under a temporary name and renames it when it is complete;
//   - it resumes from MIND_RESUME_FROM, and a resumed training has exactly the same losses as one that never stopped;
//   - at SIGUSR1, Mind's notice before a stop, it saves a checkpoint and exits with code 0; at SIGTERM or SIGINT it
//     saves one and exits with 143 or 130, because the exit code alone shows that the training has not finished;
//   - with -evaluate it is the program of an evaluation: it scores the model in MIND_MODEL_PATH and reports the result.
//
// It runs by hand too: without Mind's variables it prints its losses and writes no checkpoints.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

//go:embed text.txt
var ownText string

// Options holds the flags. Of these only Seed, Batch and the text affect the weights at a step.
type Options struct {
	Steps           int
	CheckpointEvery int
	LogEvery        int
	Batch           int
	Seed            uint64
	StepDelay       time.Duration
	Text            string
	Sample          int
	Evaluate        string
}

func main() {
	var o Options
	flag.IntVar(&o.Steps, "steps", 600, "train up to this step (a resumed training counts the steps before)")
	flag.IntVar(&o.CheckpointEvery, "checkpoint-every", 100, "steps between checkpoints; 0: only the last one")
	flag.IntVar(&o.LogEvery, "log-every", 10, "steps between loss lines and metrics")
	flag.IntVar(&o.Batch, "batch", 64, "characters predicted in a step")
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of the weights and of the order of the batches")
	flag.DurationVar(&o.StepDelay, "step-delay", 0, "sleep after each step, to leave the core to others")
	flag.StringVar(&o.Text, "text", "", "file to train on (default: the text that is built in)")
	flag.IntVar(&o.Sample, "sample", 200, "characters to write at the end")
	flag.StringVar(&o.Evaluate, "evaluate", "", "instead of training, score the model of an evaluation on the text that it has not learned from, under this `name` of a benchmark")
	flag.Parse()
	if flag.NArg() > 0 || o.Steps < 1 || o.Batch < 1 || o.LogEvery < 1 || o.CheckpointEvery < 0 {
		fmt.Fprintln(os.Stderr, "charlm: wants flags only, and -steps, -batch and -log-every of at least 1; see -help")
		os.Exit(2)
	}

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGUSR1, syscall.SIGTERM, os.Interrupt)
	err := run(o, jobFromEnvironment(), os.Stdout, stop)
	if by, ok := errors.AsType[*stoppedError](err); ok {
		os.Exit(by.code())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "charlm:", err)
		os.Exit(1)
	}
}

// run trains until the last step or the first signal, or scores a model.
func run(o Options, job Job, out io.Writer, stop <-chan os.Signal) error {
	text := ownText
	if o.Text != "" {
		b, err := os.ReadFile(o.Text)
		if err != nil {
			return fmt.Errorf("reading the text: %w", err)
		}
		text = string(b)
	}
	corpus, err := newCorpus(text)
	if err != nil {
		return err
	}
	if o.Evaluate != "" {
		return evaluate(o.Evaluate, corpus, job, out)
	}
	t := newTrainer(corpus, o.Seed, o.Batch)
	if job.ResumeFrom != "" {
		if err := t.load(job.ResumeFrom); err != nil {
			return fmt.Errorf("resuming from %s: %w", job.ResumeFrom, err)
		}
		fmt.Fprintf(out, "resumed from %s at step %d\n", job.ResumeFrom, t.Step)
	}
	fmt.Fprintf(out, "charlm: %d characters to learn from, %d kinds of them, %d weights, seed %d\n",
		len(corpus.train), len(corpus.letters), len(t.model.params), o.Seed)
	return (&session{Options: o, job: job, t: t, out: out, stop: stop}).run()
}
