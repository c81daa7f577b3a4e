// Command mind is all of Mind in one program: coordinator, agent, gateway, a whole cluster on one machine, and the
// command line for jobs, nodes and queues. This package has only flags, configuration files and wiring; the packages do
// the work.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	// The shim of a task is this program too, and runs before main: see its package comment.
	_ "github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/cmd/mind/cli"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go obey(signals, cancel, os.Exit)
	os.Exit(run(ctx, os.Args[1:]))
}

// impatience is the time after the first interrupt from which on a second one ends the program at once.
const impatience = time.Second

// obey shuts the program down at the first signal. A second SIGTERM changes nothing: `timeout` and similar programs
// send two at once, and every shutdown here is bounded. A second Ctrl-C means that the user does not want to wait.
func obey(signals <-chan os.Signal, cancel func(), exit func(int)) {
	<-signals
	cancel()
	first := time.Now()
	for s := range signals {
		if s == os.Interrupt && time.Since(first) >= impatience {
			exit(128 + int(syscall.SIGINT))
			return
		}
	}
}

func run(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return exit.Report(root.ErrOrStderr(), err)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "mind",
		Short: "A highly available control plane for GPU training clusters",
		Long: `Mind keeps the jobs of a GPU cluster running while machines come and go.

Start a whole cluster on this machine with "mind dev", then submit a job with "mind submit -- COMMAND".`,
		Example: `  mind dev                                  # a cluster on this machine
  mind submit --gpus 2 -- python train.py   # run something on it
  mind logs -f JOB                          # watch it`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddGroup(&cobra.Group{ID: "run", Title: "Running Mind:"})
	for _, c := range []*cobra.Command{newDev(), newCoordinator(), newAgent(), newGateway()} {
		c.GroupID = "run"
		root.AddCommand(c)
	}
	cli.AddTo(root, version)
	return root
}
