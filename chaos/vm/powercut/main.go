// Powercut cuts the power of a virtual machine in which a cluster works, repeatedly, and checks after each cut that
// nothing was lost that had been acknowledged. See docs/operate/powercut.md.
//
//	go run ./chaos/vm/powercut [-cuts N] [-seed N] [-moments NAME,...] [-coordinators N] [-log-store NAME] [-mutant NAME] [-short] [-within TIME] [-dir DIR]
//
// The last line has the figures, as key=value. The exit status is 1 if a promise is broken, or if there is no result,
// and 3 if this machine lacks parts of the virtual machine. With -mutant it is 0 if the mistake was noticed.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/chaos/vm"
	"github.com/mindcoordinator/mind/chaos/vm/power"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// Exit statuses.
const (
	statusBroken  = 1
	statusLacking = 3
)

// shortWithin limits the time of the cuts of a short run.
const shortWithin = 90 * time.Second

func main() {
	os.Exit(testrun.Main(func() int {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err := run(ctx, os.Args[1:])
		if err == nil || errors.Is(err, flag.ErrHelp) {
			return 0
		}
		fmt.Fprintln(os.Stderr, "powercut:", err)
		if vm.IsLacking(err) {
			return statusLacking
		}
		return statusBroken
	}))
}

// options are the flags.
type options struct {
	plan         power.Plan
	coordinators int
	logStore     string
	mutant       string
	dir          string
	short, check bool
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("powercut", flag.ContinueOnError)
	flags.IntVar(&o.plan.Cuts, "cuts", 0, "how often the power is cut (default 12; 60 with MIND_CHAOS=long; 3 with -short)")
	flags.Uint64Var(&o.plan.Seed, "seed", 0, "what the moments and the load are drawn from; 0: another one each time, which is printed")
	moments := flags.String("moments", "", "moments of the cuts, separated by commas: "+strings.Join(power.MomentNames(), ", ")+" (default: all, in turn)")
	flags.IntVar(&o.coordinators, "coordinators", 1, "1, 3 or 5; more than one need a machine with processors to spare")
	flags.StringVar(&o.logStore, "log-store", "", "log of the coordinators: wal, boltdb, or moving (one of them at each start); default: what they choose, which is wal")
	flags.StringVar(&o.mutant, "mutant", "", "put a known mistake into the code of the machine, and require that it is noticed; list: show them")
	flags.StringVar(&o.dir, "dir", "", "folder for disks, consoles and evidence, which stays (default: a temporary one, which stays when a promise is broken)")
	flags.DurationVar(&o.plan.Within, "within", 0, "begin no other cut after this time, as 90s (default: no limit; 90s with -short)")
	flags.BoolVar(&o.short, "short", false, "few cuts, at the hottest moments")
	flags.BoolVar(&o.check, "check", false, "only say whether this machine has what is needed, and fetch what can be fetched")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *moments != "" {
		o.plan.Moments = strings.Split(*moments, ",")
	}
	if o.plan.Cuts == 0 {
		switch {
		case o.short:
			o.plan.Cuts = 3
		case os.Getenv("MIND_CHAOS") == "long":
			o.plan.Cuts = 60
		default:
			o.plan.Cuts = 12
		}
	}
	if o.short {
		if len(o.plan.Moments) == 0 {
			o.plan.Moments = power.ShortMoments()
		}
		o.plan.Within = cmp.Or(o.plan.Within, shortWithin)
	}
	if o.plan.Seed == 0 {
		o.plan.Seed = rand.Uint64()
	}
	return o, nil
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.mutant == "list" {
		for _, m := range power.Mutants {
			fmt.Printf("%-28s %s\n", m.Name, m.What)
		}
		return nil
	}
	kit, err := vm.CachedKit(ctx)
	if vm.IsLacking(err) {
		fmt.Println("looking for what a virtual machine needs; a kernel and busybox are fetched through apt-get if they have to be")
		kit, err = vm.FindKit(ctx)
	}
	if err != nil {
		return err
	}
	if o.check {
		fmt.Println("kernel", kit.Version)
		return nil
	}
	var changes []power.Change
	if o.mutant != "" {
		m, err := power.FindMutant(o.mutant)
		if err != nil {
			return err
		}
		changes, o.plan.UntilBroken = m.Changes, true
	}
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "mind-powercut-"); err != nil {
			return err
		}
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	began := time.Now()
	bed, err := power.NewBed(ctx, power.Options{
		Kit: kit, Dir: dir, Coordinators: o.coordinators, LogStore: o.logStore, Changes: changes,
		Log: func(format string, args ...any) { fmt.Printf(format+"\n", args...) },
	})
	if err != nil {
		return errors.Join(err, remove(o, dir))
	}
	fmt.Printf("kernel %s, %d cuts, seed %d\n", kit.Version, o.plan.Cuts, o.plan.Seed)
	v, err := bed.Run(ctx, o.plan)
	if v == nil {
		return errors.Join(err, remove(o, dir))
	}
	v.Tell(os.Stdout)
	broken := v.Broken()
	keep := err != nil || (broken > 0) != (o.mutant != "")
	if keep {
		fmt.Println("disks, console and evidence are kept in", dir)
	} else {
		err = remove(o, dir)
	}
	figures := fmt.Sprintf("%s seconds=%.0f seed=%d", v, time.Since(began).Seconds(), o.plan.Seed)
	switch {
	case o.mutant != "":
		caught := 0
		if broken > 0 {
			caught = 1
		} else if err == nil {
			err = fmt.Errorf("the mistake %s was not noticed in %d cuts", o.mutant, o.plan.Cuts)
		}
		figures = fmt.Sprintf("mutant=%s caught=%d %s", o.mutant, caught, figures)
	case broken > 0 && err == nil:
		err = fmt.Errorf("promises were broken %d times", broken)
	}
	fmt.Println(figures)
	return err
}

// remove removes the folder of the run, unless the user has named it.
func remove(o options, dir string) error {
	if o.dir != "" {
		return nil
	}
	return os.RemoveAll(dir)
}
