// Command attack breaks clusters of real processes, one scenario after the other, and checks every promise. It prints a
// report, whose last line has the figures, and exits with 1 if a promise was broken.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/chaos/scenario"
	"github.com/mindcoordinator/mind/chaos/scenario/result"
	"github.com/mindcoordinator/mind/chaos/testbed"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

type options struct {
	mind, only, scratch string
	long, list, virtual bool
}

func main() { os.Exit(testrun.Main(attack)) }

func attack() int {
	var o options
	flag.StringVar(&o.mind, "mind", "bin/mind", "the `binary` to attack")
	flag.StringVar(&o.only, "only", ".", "`regexp` of the scenarios to run")
	flag.StringVar(&o.scratch, "scratch", os.TempDir(), "`folder` for clusters and evidence")
	flag.BoolVar(&o.long, "long", os.Getenv("MIND_CHAOS") == "long", "all of it, for most of an hour: 100 leaders, 200 jobs, agents away for 10 minutes (also: MIND_CHAOS=long)")
	flag.BoolVar(&o.list, "list", false, "list the scenarios")
	flag.BoolVar(&o.virtual, "virtual", false, "then attack clusters in virtual time too (go test ./chaos/virtual/...)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, o options) error {
	chosen, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if o.mind, err = filepath.Abs(o.mind); err != nil {
		return err
	}
	var results []result.Result
	var faults []error
	var skipped []string
	for _, e := range scenario.Suite(o.long) {
		name := e.Attack.Name
		if !chosen.MatchString(name) || ctx.Err() != nil {
			continue
		}
		if o.list {
			fmt.Println(name)
			continue
		}
		if why := testbed.Lacks(e); why != "" {
			fmt.Printf("== %s: skipped: %s\n", name, why)
			skipped = append(skipped, name+": skipped: "+why)
			continue
		}
		v, err := one(ctx, o, e)
		if err != nil {
			faults = append(faults, err)
		}
		results = append(results, v)
	}
	if o.list {
		return nil
	}
	if o.virtual && ctx.Err() == nil {
		faults = append(faults, virtually(ctx))
	}
	sum := result.Sum("all", results...)
	sum.Notes = append(sum.Notes, skipped...)
	sum.Notes = append(sum.Notes, "clock steps of one process cannot be made on Linux without changing the clock of the machine: the attack in virtual time skews clocks")
	fmt.Printf("\n== all scenarios\n%s\n", sum.Report())
	for _, err := range faults {
		if err != nil {
			fmt.Println("no result:", err)
		}
	}
	fmt.Println(sum)
	return errors.Join(append(faults, sum.Broken(), ctx.Err())...)
}

// within limits the time of one scenario; the longest one keeps agents away for ten minutes.
const within = 25 * time.Minute

func one(ctx context.Context, o options, e scenario.Entry) (result.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	dir, err := os.MkdirTemp(o.scratch, "mind-attack-")
	if err != nil {
		return result.Result{}, err
	}
	fmt.Printf("== %s, in %s\n", e.Attack.Name, dir)
	v, err := testbed.Run(ctx, o.mind, dir, e, func(format string, args ...any) { fmt.Printf("   "+format+"\n", args...) })
	fmt.Println(v)
	if err != nil || v.Broken() != nil {
		fmt.Println("   state and evidence are kept")
		return v, err
	}
	return v, os.RemoveAll(dir)
}

// virtually runs the attacks in virtual time, which are tests.
func virtually(ctx context.Context) error {
	fmt.Println("== virtual time")
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout", "40m", "./chaos/virtual/...")
	if !strings.Contains(strings.Join(os.Environ(), "\n"), "MIND_CHAOS=") {
		cmd.Env = append(os.Environ(), "MIND_CHAOS=long")
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the attack in virtual time: %w", err)
	}
	return nil
}
