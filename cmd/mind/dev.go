package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/agent/device/sim"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
	"github.com/mindcoordinator/mind/devcluster"
)

func newDev() *cobra.Command {
	var o devcluster.Options
	var inProcess, quiet bool
	var contextName string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole cluster on this machine",
		Long: `Runs coordinators, agents and a gateway on this machine, each in its own process, until SIGINT or SIGTERM.

When a leader is elected, all agents are registered and the gateway answers, it writes DIR/dev.json (addresses, pids, the
command that starts each component, and a token) and prints "ready http://HOST:PORT". Logs are in DIR/logs.`,
		Example: `  mind dev                                 # 3 coordinators, 2 agents with 8 simulated GPUs each
  mind dev --data-dir ~/mind --restart     # keeps its state and restarts failed components
  mind dev --coordinators 1 --agents 4 --gpus 4xA100
  mind dev --http 127.0.0.1:9000 --in-process`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags := cmd.Flags()
			if !flags.Changed("coordinators") {
				o.Coordinators = 0
			}
			switch o.Coordinators {
			case 0, 1, 3, 5:
			default:
				return exit.Misuse(fmt.Errorf("--coordinators %d: a cluster has 1, 3 or 5 of them", o.Coordinators))
			}
			if o.GPUs != "" && o.GPUs != "auto" && o.GPUs != "none" {
				if _, err := sim.New("n1", o.GPUs); err != nil {
					return exit.Misuse(fmt.Errorf("--gpus: %w; or auto, or none", err))
				}
			}
			switch {
			case o.Agents < 0:
				return exit.Misuse(errors.New("--agents: it must be a number of nodes, or 0 for coordinators and a gateway only"))
			case !flags.Changed("agents"):
				o.Agents = 0
			case o.Agents == 0:
				o.Agents = -1
			}
			if !flags.Changed("gpus") && hasGPUs() {
				o.GPUs = "auto"
			}
			level := slog.LevelInfo
			var more []string
			if quiet {
				level, more = slog.LevelError, []string{"--log-level", "error"}
			}
			if inProcess {
				o.InProcess = func(ctx context.Context, args []string) error { return runInProcess(ctx, slices.Concat(args, more)) }
			}
			o.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
			return dev(cmd, o, contextName)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "data-dir", "", "directory for all state, used again by the next start (default: a temporary one, removed at the end)")
	f.IntVar(&o.Coordinators, "coordinators", 3, "1, 3 or 5")
	f.IntVar(&o.Agents, "agents", 2, "number of nodes; 0: coordinators and a gateway only")
	f.StringVar(&o.GPUs, "gpus", "", "GPUs of each agent: simulated ones such as 8xH100, 4xA100,2xH100 or 7xH100-1g.10gb, auto, or none (default: those of this machine, else 8xH100)")
	f.StringVar(&o.Isolation, "isolation", "", "how far jobs are kept apart: none, cgroup or full (default: as far as this machine allows)")
	f.StringVar(&o.HTTP, "http", "", "address of the gateway (default: 127.0.0.1:8080, or the next free port); an address that other machines can reach gets a warning: HTTP without TLS")
	f.StringVar(&o.LogArchive, "log-archive", "", "archive that keeps logs and metrics of tasks when their node is gone: a directory, file:///DIR or s3://BUCKET/PREFIX?... (default: none)")
	f.StringVar(&o.CheckpointArchive, "checkpoint-archive", "", "archive that keeps checkpoints when their node is gone: a directory, file:///DIR or s3://BUCKET/PREFIX?... (default: a directory in --data-dir)")
	f.StringSliceVar(&o.DataRoots, "data-roots", nil, "directories from which jobs may use local data and models (default: your home directory, the current directory and the directory for temporary files)")
	f.StringSliceVar(&o.CORSOrigins, "cors-origins", nil, "origins whose pages may use the gateway from a browser, such as http://localhost:5173 (default: none)")
	f.BoolVar(&o.Restart, "restart", false, "restart components that exit or are killed")
	f.BoolVar(&inProcess, "in-process", false, "run all components in one process")
	f.BoolVar(&quiet, "quiet", false, "print only errors and the warning of --http to stderr")
	f.StringVar(&contextName, "context", "", "also create or update this context of the command line, and make it the current one")
	return cmd
}

func dev(cmd *cobra.Command, o devcluster.Options, contextName string) error {
	ctx := cmd.Context()
	began := time.Now()
	cluster, err := devcluster.Start(ctx, o)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil // stopped by a signal before it was ready
		}
		return fmt.Errorf("starting the cluster: %w", err)
	}
	info := cluster.Info()
	if contextName != "" {
		err = target.SaveContext(contextName, target.Context{Addr: info.Gateway.URL, Token: info.Token, Dev: cluster.Dir()})
	}
	if err == nil {
		warnExposed(cmd.ErrOrStderr(), cluster)
		fmt.Fprintf(cmd.OutOrStdout(), "ready %s\n", info.Gateway.URL)
		o.Logger.Info("ready", "after", time.Since(began).Round(time.Millisecond), "dir", cluster.Dir())
		fmt.Fprintf(cmd.ErrOrStderr(), "console %s\n", target.Context{Addr: info.Gateway.URL, Token: info.Token}.Console(true))
		fmt.Fprintf(cmd.ErrOrStderr(), "export MIND_ADDR=%s\nexport MIND_TOKEN=%s\nexport MIND_DEV=%s\n", info.Gateway.URL, info.Token, cluster.Dir())
		<-ctx.Done()
		o.Logger.Info("stopping")
	}
	return errors.Join(err, cluster.Stop())
}

// warnExposed warns about a gateway that other machines can reach.
func warnExposed(w io.Writer, cluster *devcluster.Cluster) {
	addr, exposed := cluster.Exposed()
	if !exposed {
		return
	}
	_, port, _ := net.SplitHostPort(addr) // valid, because the gateway listens there
	fmt.Fprintf(w, `mind: warning: the gateway listens on %s, which other machines may reach
  - It speaks HTTP without TLS: anyone who can read the network can read the token, and with the token run commands here as %s.
  - It serves /health, /health/ready, /metrics and /openapi.json without a token; everything else needs the token.
  - Coordinators and agents listen only on 127.0.0.1 and use mutual TLS.
  To listen only on this machine: mind dev --http 127.0.0.1:%s. To serve other machines: mind gateway with http_cert_file and http_key_file.
`, addr, accountName(), port)
}

func accountName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "user " + strconv.Itoa(os.Getuid())
}

// runInProcess runs a component in this process, like `mind ARGS...`.
func runInProcess(ctx context.Context, args []string) error {
	root := newRoot()
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}
