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

// chaosFlags are those of every attack.
type chaosFlags struct {
	rounds, jobs, clients int
	devJSON               string
	length, within        time.Duration
	keep                  bool
}

// Command is `mind chaos`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Break a cluster of this machine and check that it keeps its promises",
		Long: `Breaks a ` + "`mind dev`" + ` cluster while jobs run and clients submit. Afterwards it compares what the cluster says with evidence
that the jobs left on disk: who ran when, how often, with which exit code, and what it printed.

An attack takes the cluster that --dev-json or MIND_DEV names, or starts one of its own, which it removes at the end. In a
cluster that is there it adds jobs of its own and leaves the others alone; but what it kills is real. A component that was
killed is started again: by "mind dev --restart", else by this command, with the argv of dev.json. Where one more dead
coordinator would cost the cluster its quorum, no coordinator is touched, and the attack ends with exit code 1.

Each attack ends with a verdict, one promise a line, and then one line of figures (key=value). Exit code 1: a promise was
broken, or there is no verdict. Progress goes to stderr.`,
		Example: `  mind chaos kill-leader --rounds 20            # a cluster of its own
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
	flags.IntVar(&f.jobs, "jobs", 12, "jobs that run all through the attack")
	flags.IntVar(&f.clients, "clients", 4, "clients that submit short jobs meanwhile")
	flags.DurationVar(&f.within, "timeout", 30*time.Minute, "give up after this time")
	flags.BoolVar(&f.keep, "keep", false, "keep the folder of evidence, and the state of a cluster of its own")
}

func (f *chaosFlags) bindCluster(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.devJSON, "dev-json", "", "dev.json of a running mind dev, or its folder (default: MIND_DEV; without either, a cluster of its own)")
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
		Short: "Kill the coordinator that leads, again and again",
		Long: `Kills the leading coordinator with SIGKILL, measures how long writes wait until another one accepts them, brings the killed one
back, and goes on.

Promised: no job is harmed, none that was acknowledged is lost, none is made twice, no line of a log is lost.`,
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
		Short: "Kill the agent with the most jobs, again and again",
		Long: `Kills the agent whose node runs the most jobs with SIGKILL, and brings it back.

Promised: the jobs do not notice, the agent adopts them again, and their exit codes are exact.`,
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
		Short: "Stop a process and let it go on: leader, follower and agent in turn",
		Long: `Stops (SIGSTOP) the leader, a follower and an agent in turn for a while, and lets them go on. A stopped process is not dead:
a leader that wakes up believes for a moment that it still leads.

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
	cmd.Flags().DurationVar(&f.length, "length", 4*time.Second, "how long a process is stopped")
	return cmd
}

func newChaosWorkload() *cobra.Command {
	var s workload.Spec
	cmd := &cobra.Command{
		Use: workload.Command, Short: "What the jobs of an attack run", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			code, err := workload.Run(s, os.Stdout)
			if err != nil || code == 0 {
				return err
			}
			return exit.With(code, nil)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.Dir, "dir", "", "folder of evidence")
	flags.StringVar(&s.Group, "group", "", "group that is finished together")
	flags.DurationVar(&s.Length, "length", 0, "length of the work")
	flags.DurationVar(&s.Every, "every", 0, "time of a step")
	flags.IntVar(&s.CheckpointEvery, "checkpoint-every", 0, "steps between checkpoints")
	flags.IntVar(&s.Weights, "weights", 0, "bytes of a checkpoint, which is synced then")
	flags.IntVar(&s.Exit, "exit", 0, "exit code")
	flags.IntVar(&s.Print, "print", 0, "lines to print in the place of other work")
	return cmd
}

// attack finds or starts a cluster, attacks it, and prints the verdict.
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

// opener gives an arena its cluster, and says how to end that.
type opener func(ctx context.Context, scratch string, arena *scenario.Arena) (stop func() error, err error)

// with runs the attack on the cluster that open gives.
func (f *chaosFlags) with(cmd *cobra.Command, open opener, a scenario.Attack) (err error) {
	if f.rounds < 1 || f.jobs < 0 || f.clients < 1 {
		return exit.Misuse(errors.New("--rounds and --clients must be at least 1, --jobs at least 0"))
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.within)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the own program, which the jobs run: %w", err)
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
		return err // Nothing was done.
	}
	fmt.Fprintln(cmd.OutOrStdout(), v.Report())
	fmt.Fprintln(cmd.OutOrStdout(), v)
	if err != nil {
		return fmt.Errorf("there is no verdict: %w", err)
	}
	return v.Broken()
}
