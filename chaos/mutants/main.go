// Mutants puts known mistakes into Mind, one at a time, and requires that the tests notice each of them.
//
// A mutant is an exact change of one file, with the cheapest tests that must fail because of it. The compiler gets the
// changed file as an overlay, so the tree is not changed. A mutant is caught if one of its tests fails. It is not
// caught if it does not compile, if the text to change is not in the file exactly once, if one of its tests does not
// exist or fails without it, or if the tests take too long: all of these are errors of the list, and end the run with 1
// like a survivor. Processes that the tests leave behind are ended.
//
//	go run ./chaos/mutants [-only NAME] [-jobs N] [-timeout TIME] [-v] [-list] [-table]
//
// The last line has the results as key=value.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/devcluster/testrun"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == keepWord {
		os.Exit(keep(os.Args[2:]))
	}
	os.Exit(testrun.Main(func() int {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err := run(ctx, os.Args[1:])
		if err == nil {
			return 0
		}
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "mutants:", err)
		}
		return 1
	}))
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	only := flags.String("only", "", "run the mutants with these names, separated by commas")
	jobs := flags.Int("jobs", 1, "how many mutants are tried at a time")
	limit := flags.Duration("timeout", 3*time.Minute, "how long the tests of one mutant may take")
	list := flags.Bool("list", false, "only list the mutants, and check that their texts are there")
	listed := flags.Bool("page", false, "only print the list of docs/develop/mutants.md")
	verbose := flags.Bool("v", false, "show how the tests failed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(mutants, *only)
	if err != nil {
		return err
	}
	if *listed {
		fmt.Print(page(".", mutants))
		return nil
	}
	if *list {
		return show(chosen)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "mind-mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	b := &bench{root: root, scratch: scratch, limit: *limit}
	began := time.Now()
	sum := b.all(ctx, chosen, max(1, *jobs), *verbose)
	fmt.Printf("mutants=%d caught=%d survived=%d errors=%d seconds=%.0f\n",
		len(chosen), sum[caught], sum[survived], len(chosen)-sum[caught]-sum[survived], time.Since(began).Seconds())
	if sum[caught] != len(chosen) {
		return errors.New("not every mutant was caught")
	}
	return nil
}

func choose(from []mutant, only string) ([]mutant, error) {
	if only == "" {
		return from, nil
	}
	var chosen []mutant
	for name := range strings.SplitSeq(only, ",") {
		at := slices.IndexFunc(from, func(m mutant) bool { return m.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no mutant %q", name)
		}
		chosen = append(chosen, from[at])
	}
	return chosen, nil
}

func show(chosen []mutant) error {
	var stale error
	for _, m := range chosen {
		fmt.Printf("%-40s %-13s %s %s\n", m.Name, m.Breaks, m.Package, strings.Join(m.Tests, " "))
		if _, err := m.change("."); err != nil {
			stale = errors.Join(stale, err)
		}
	}
	return stale
}

// all tries the mutants, and counts their results.
func (b *bench) all(ctx context.Context, chosen []mutant, jobs int, verbose bool) map[outcome]int {
	controls := map[string]*control{}
	for _, m := range chosen {
		c := controls[m.Package]
		if c == nil {
			c = &control{pkg: m.Package}
			controls[m.Package] = c
		}
		for _, t := range m.Tests {
			if !slices.Contains(c.tests, t) {
				c.tests = append(c.tests, t)
			}
		}
	}
	var (
		mu   sync.Mutex
		sum  = map[outcome]int{}
		work = make(chan mutant)
		busy sync.WaitGroup
		done int
	)
	for range jobs {
		busy.Go(func() {
			for m := range work {
				began := time.Now()
				r := b.try(ctx, &m, controls[m.Package])
				mu.Lock()
				done++
				sum[r.outcome]++
				fmt.Printf("%3d/%d %-9s %5.0f s  %-13s %-40s %s\n", done, len(chosen), r.outcome, time.Since(began).Seconds(), m.Breaks, m.Name, r.why)
				if verbose && r.output != "" {
					fmt.Println(r.output)
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range chosen {
		if ctx.Err() != nil {
			break
		}
		work <- m
	}
	close(work)
	busy.Wait()
	return sum
}
