// Command bench measures the whole system on real processes with fsync on, each figure beside its yardstick in the same
// run, and prints the table of docs/develop/benchmarks.md. It marks figures that miss their goal; only a failure to
// measure is an error.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/chaos/yardstick"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

type bench struct {
	mind    string
	scratch string
	seconds int
	repeats int
}

// row is one line of the table.
type row struct {
	name string
	run  func(context.Context, *bench) ([]figure, error)
}

// figure is a measured value, with the value of its yardstick.
type figure struct {
	measure   string
	mind      string
	yardstick string
	must      string
	ok        bool
}

var rows = []row{
	{"grpc", grpcSubmits},
	{"rest", restSubmits},
	{"batch", batchSubmits},
	{"latency", submitLatency},
	{"launch", submitToRunning},
	{"drain", drainTrue},
	{"array", drainArray},
	{"failover", failover},
	{"memory", memoryPerJob},
	{"surface", surface},
	{"watchers", idleWatchers},
	{"executions", invokeExecutions},
	{"advances", advances},
	{"step", sequentialStep},
	{"waiting", besideWaiting},
	{"timers", timersDue},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "yardstick-peer" {
		fmt.Fprintln(os.Stderr, yardstick.PeerMain(os.Args[2:]))
		os.Exit(1)
	}
	if len(os.Args) > 1 && os.Args[1] == yardstick.EchoArg {
		fmt.Fprintln(os.Stderr, yardstick.EchoMain())
		os.Exit(1)
	}
	os.Exit(testrun.Main(measure))
}

func measure() int {
	b := &bench{}
	flag.StringVar(&b.mind, "mind", "bin/mind", "the `binary` to measure")
	only := flag.String("rows", ".", "`regexp` of the rows to measure: grpc, rest, batch, latency, launch, drain, array, failover, memory, surface, watchers, executions, advances, step, waiting, timers")
	flag.IntVar(&b.seconds, "seconds", 3, "length of each load, after a warm-up")
	flag.IntVar(&b.repeats, "repeats", 3, "repeats, yardstick and Mind in turn; medians are shown")
	flag.StringVar(&b.scratch, "scratch", os.TempDir(), "where clusters keep their state; the disk that is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := b.run(ctx, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func (b *bench) run(ctx context.Context, only string) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-rows: %w", err)
	}
	if b.mind, err = filepath.Abs(b.mind); err != nil {
		return err
	}
	fmt.Println("| measure | Mind | yardstick, same run | must | reached |\n|---|---|---|---|---|")
	for _, r := range rows {
		if !chosen.MatchString(r.name) {
			continue
		}
		figures, err := r.run(ctx, b)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		for _, f := range figures {
			reached := map[bool]string{true: "yes", false: "**no**"}[f.ok]
			if strings.HasPrefix(f.must, "-") {
				reached = "-" // the figure has no goal
			}
			fmt.Printf("| %s | %s | %s | %s | %s |\n", f.measure, f.mind, f.yardstick, f.must, reached)
		}
	}
	return nil
}

// pairs runs the yardstick and Mind in turn and returns the median of each.
func (b *bench) pairs(yard, mind func() (float64, error)) (y, m float64, err error) {
	var ys, ms []float64
	for range b.repeats {
		if y, err = yard(); err != nil {
			return 0, 0, fmt.Errorf("yardstick: %w", err)
		}
		if m, err = mind(); err != nil {
			return 0, 0, err
		}
		ys, ms = append(ys, y), append(ms, m)
	}
	return median(ys), median(ms), nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func rate(v float64) string { return fmt.Sprintf("%.0f/s", v) }

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

func failIf(r yardstick.Result) (float64, error) {
	if r.Errors > 0 {
		return 0, fmt.Errorf("%d of %d calls failed, first: %s", r.Errors, r.Errors+r.Ops, r.FirstErr)
	}
	return r.PerSecond, nil
}

func padding(n int) string { return strings.Repeat("x", n) }
