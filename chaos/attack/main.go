// Command attack breaks a cluster of real processes and checks that every promise held. It ends with one line of figures
// and exits 1 when a promise was broken.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/scenario"
)

func main() {
	mind := flag.String("mind", "bin/mind", "the `binary` to attack")
	rounds := flag.Int("rounds", 20, "how often the leader is killed")
	clients := flag.Int("clients", 8, "clients that submit meanwhile")
	pause := flag.Duration("pause", 50*time.Millisecond, "pause of a client between two submits")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *mind, scenario.KillLeader{Rounds: *rounds, Clients: *clients, Pause: *pause, Between: time.Second}); err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, mind string, k scenario.KillLeader) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	mind, err := filepath.Abs(mind)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mind-attack-")
	if err != nil {
		return err
	}
	fmt.Println("state and logs of the cluster:", dir)
	c, err := procs.Start(ctx, mind, dir, "--restart", "--gpus", "8xH100")
	if err != nil {
		return err
	}
	k.Scratch = dir
	k.Log = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	report, runErr := k.Run(ctx, c)
	stopErr := c.Stop()
	if runErr == nil {
		runErr = report.Broken()
	}
	if runErr == nil {
		runErr = stopErr
	}
	if runErr == nil {
		runErr = os.RemoveAll(dir)
	}
	fmt.Println(report)
	return runErr
}
