// Command demo-core shows on one machine, in less than a minute, what Cores are for: a flow trains a model, scores it, asks a person
// and publishes it, and the leader of the cluster is killed twice: while the training runs, and right after the person's answer.
//
// The processes, the signals and the figures are real. The program checks each claim before it prints it at the end, and exits with 0
// only if all claims hold.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/devcluster/testrun"
	"github.com/mindcoordinator/mind/examples/stage"
)

//go:embed publish.yaml
var program []byte

// settings holds the flags.
type settings struct {
	mind, charlm string
	steps        int
	delay        time.Duration
	wanted       float64
	keep         bool
}

func main() { os.Exit(testrun.Main(demo)) }

func demo() int {
	var s settings
	flag.StringVar(&s.mind, "mind", "bin/mind", "the mind `binary`")
	flag.StringVar(&s.charlm, "charlm", "bin/charlm", "the `program` that trains and scores")
	flag.IntVar(&s.steps, "steps", 400, "steps of the training, a multiple of 100")
	flag.DurationVar(&s.delay, "step-delay", 30*time.Millisecond, "pause after each step, so that the training leaves the cores to the cluster")
	flag.Float64Var(&s.wanted, "wanted", 3, "loss on held-out text up to which a person is asked")
	flag.BoolVar(&s.keep, "keep", false, "keep the data directory")
	flag.Parse()
	if s.steps < 200 || s.steps%100 != 0 {
		fmt.Fprintln(os.Stderr, "demo-core: -steps must be a multiple of 100, and 200 at least")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, 4*time.Minute, errors.New("the demo took more than four minutes"))
	defer cancel()
	if err := run(ctx, s); err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		fmt.Fprintf(os.Stderr, "\ndemo-core: FAILED: %v\n", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, s settings) (err error) {
	for _, path := range []*string{&s.mind, &s.charlm} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
		if _, err := os.Stat(*path); err != nil {
			return fmt.Errorf("%w: build it with `make demo-core`", err)
		}
	}
	dir, err := os.MkdirTemp("", "mind-demo-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil || s.keep {
			fmt.Fprintln(os.Stderr, "the data directory, with all logs, is left in", dir)
			return
		}
		err = os.RemoveAll(dir)
	}()

	t := stage.NewTeller(os.Stdout)
	t.Title("A cluster of three")
	c, err := stage.Start(ctx, s.mind, filepath.Join(dir, "data"), filepath.Join(dir, "mind-dev.log"))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop(context.Background()))
		}
	}()
	st := &story{Teller: t, settings: s, cluster: c, rest: stage.NewREST(c.Info), workDir: dir}
	if err := st.tell(ctx); err != nil {
		return err
	}

	t.Title("The end")
	began := time.Now()
	if err := c.Stop(ctx); err != nil {
		return err
	}
	t.Say("everything stopped in %s; no process is left", stage.Took(time.Since(began)))
	st.summary()
	return nil
}
