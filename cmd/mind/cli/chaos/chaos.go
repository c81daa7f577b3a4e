package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/scenario"
	"github.com/mindcoordinator/mind/chaos/scenario/users"
	"github.com/mindcoordinator/mind/chaos/workload"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
)

// chaosFlags are the flags that every attack has.
type chaosFlags struct {
	rounds, jobs, clients int
	devJSON               string
	length, within        time.Duration
	keep                  bool
}

// Command returns `mind chaos`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Inject faults into a cluster on this machine and check that it keeps its promises",
		Long: `Injects faults into a ` + "`mind dev`" + ` cluster while jobs run and clients submit. Afterwards it compares what the cluster
reports with evidence that the jobs left on disk: which ran when, how often, with which exit code and output.

An attack uses the cluster given by --dev-json or MIND_DEV, or starts its own and removes it at the end. In an existing
cluster it submits its own jobs and does not touch others, but the processes that it kills are real. A killed component is
started again: by "mind dev --restart", or by this command, with the argv in dev.json. If killing one more coordinator would
cost the cluster its quorum, the attack stops with exit code 1.

Each attack ends with a result, one line for each promise, and then one line of figures (key=value). Exit code 1: a promise
was broken, or the attack could not be completed. Progress goes to stderr.`,
		Example: `  mind chaos kill-leader --rounds 20            # starts its own cluster
  mind dev --data-dir ~/mind &
  mind chaos kill-agent --dev-json ~/mind/dev.json
  mind chaos pause --rounds 6 --jobs 20
  sudo mind chaos partition --rounds 3          # network namespaces need root`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newChaosKillLeader(), newChaosKillAgent(), newChaosPause(), newChaosPartition(), newChaosWorkload())
	return cmd
}

func (f *chaosFlags) bind(cmd *cobra.Command, rounds int) {
	flags := cmd.Flags()
	flags.IntVar(&f.rounds, "rounds", rounds, "how often the fault happens")
	flags.IntVar(&f.jobs, "jobs", 12, "jobs that run for the whole attack")
	flags.IntVar(&f.clients, "clients", 4, "clients that submit short jobs during the attack")
	flags.DurationVar(&f.within, "timeout", 30*time.Minute, "give up after this time")
	flags.BoolVar(&f.keep, "keep", false, "keep the directory of evidence, and the state of the cluster if the attack started it")
}

func (f *chaosFlags) bindCluster(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.devJSON, "dev-json", "", "dev.json of a running mind dev, or its directory (default: MIND_DEV; without either, start a cluster)")
}

func (f *chaosFlags) load() scenario.Load {
	replaceable := f.jobs / 3
	return scenario.Load{
		Steady:  users.Steady{Jobs: f.jobs - replaceable, Replaceable: replaceable},
		Clients: f.clients, Pause: 50 * time.Millisecond, Followers: min(4, f.jobs),
	}
}

func newChaosKillLeader() *cobra.Command {
	f := &chaosFlags{}
	cmd := &cobra.Command{
		Use:   "kill-leader",
		Short: "Kill the leader repeatedly",
		Long: `Kills the leader with SIGKILL, measures how long writes wait until another coordinator accepts them, restarts the killed one,
and continues.

Promised: no job is harmed, no acknowledged job is lost, no job is created twice, no log line is lost.`,
		Example: `  mind chaos kill-leader
  mind chaos kill-leader --rounds 100 --jobs 50 --dev-json ~/mind/dev.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.attack(cmd, scenario.KillLeader(f.rounds, f.load()))
		},
	}
	f.bind(cmd, 10)
	f.bindCluster(cmd)
	return cmd
}

func newChaosKillAgent() *cobra.Command {
	f := &chaosFlags{}
	cmd := &cobra.Command{
		Use:   "kill-agent",
		Short: "Kill the agent with the most jobs repeatedly",
		Long: `Kills the agent whose node runs the most jobs with SIGKILL, and restarts it.

Promised: the jobs keep running, the agent adopts them again, and their exit codes are exact.`,
		Example: `  mind chaos kill-agent
  mind chaos kill-agent --rounds 20 --dev-json ~/mind/dev.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.attack(cmd, scenario.KillAgent(f.rounds, f.load()))
		},
	}
	f.bind(cmd, 5)
	f.bindCluster(cmd)
	return cmd
}

func newChaosPause() *cobra.Command {
	f := &chaosFlags{}
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Suspend and resume processes: the leader, a follower and an agent in turn",
		Long: `Suspends (SIGSTOP) the leader, a follower and an agent in turn for a while, and resumes them. A suspended process is not
dead: a leader that resumes believes for a moment that it still leads.

Promised: as for kill-leader.`,
		Example: `  mind chaos pause
  mind chaos pause --rounds 9 --length 10s --dev-json ~/mind/dev.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.attack(cmd, scenario.Pause(f.rounds, f.length, f.load()))
		},
	}
	f.bind(cmd, 6)
	f.bindCluster(cmd)
	cmd.Flags().DurationVar(&f.length, "length", 4*time.Second, "how long a process is suspended")
	return cmd
}

func newChaosWorkload() *cobra.Command {
	var s workload.Spec
	cmd := &cobra.Command{
		Use: workload.Command, Short: "Run the work of a job of an attack", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			code, err := workload.Run(s, os.Stdout)
			if err != nil || code == 0 {
				return err
			}
			return exit.With(code, nil)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.Dir, "dir", "", "directory of evidence")
	flags.StringVar(&s.Group, "group", "", "group that is finished together")
	flags.DurationVar(&s.Length, "length", 0, "how long the work takes")
	flags.DurationVar(&s.Every, "every", 0, "how long a step takes")
	flags.IntVar(&s.CheckpointEvery, "checkpoint-every", 0, "steps between checkpoints")
	flags.IntVar(&s.Weights, "weights", 0, "size of a checkpoint in bytes; a checkpoint with a size is synced")
	flags.IntVar(&s.Exit, "exit", 0, "exit code")
	flags.IntVar(&s.Print, "print", 0, "lines to print instead of other work")
	return cmd
}

// attack finds or starts a cluster, attacks it, and prints the result.
func (f *chaosFlags) attack(cmd *cobra.Command, a scenario.Attack) error {
	return f.with(cmd, func(ctx context.Context, scratch string, arena *scenario.Arena) (_ func() error, err error) {
		where := f.devJSON
		if where == "" {
			where = os.Getenv("MIND_DEV")
		}
		if where != "" {
			arena.Cluster, err = procs.Attach(where)
			return func() error { return nil }, err
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "starting a cluster:", scratch)
		arena.Cluster, err = procs.Start(ctx, arena.Mind, scratch, "--restart", "--gpus", "8xH100", "--agents", "3", "--http", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		return arena.Cluster.Stop, nil
	}, a)
}

// opener sets the cluster of an arena, and returns a function that ends it.
type opener func(ctx context.Context, scratch string, arena *scenario.Arena) (stop func() error, err error)

// with runs the attack on the cluster that open returns.
func (f *chaosFlags) with(cmd *cobra.Command, open opener, a scenario.Attack) (err error) {
	if f.rounds < 1 || f.jobs < 0 || f.clients < 1 {
		return exit.Misuse(errors.New("--rounds and --clients must be at least 1, --jobs at least 0"))
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.within)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program, which the jobs run: %w", err)
	}
	scratch, err := os.MkdirTemp("", "mind-chaos-")
	if err != nil {
		return err
	}
	defer func() {
		var noSpare *procs.NoSpareError
		if f.keep || err != nil && !errors.As(err, &noSpare) {
			fmt.Fprintln(cmd.ErrOrStderr(), "evidence:", scratch)
			return
		}
		err = errors.Join(err, os.RemoveAll(scratch))
	}()
	arena := scenario.Arena{Mind: self, Scratch: scratch, Log: func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
	}}
	stop, err := open(ctx, scratch, &arena)
	if err != nil {
		return err
	}
	v, err := a.Run(ctx, arena)
	err = errors.Join(err, stop())
	var noSpare *procs.NoSpareError
	if errors.As(err, &noSpare) && v.Rounds == 0 {
		return err // the attack was not started
	}
	fmt.Fprintln(cmd.OutOrStdout(), v.Report())
	fmt.Fprintln(cmd.OutOrStdout(), v)
	if err != nil {
		return fmt.Errorf("the attack could not be completed: %w", err)
	}
	return v.Broken()
}
