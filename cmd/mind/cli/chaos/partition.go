package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/chaos/netns"
	"github.com/mindcoordinator/mind/chaos/scenario"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
)

func newChaosPartition() *cobra.Command {
	f := &chaosFlags{}
	cmd := &cobra.Command{
		Use:   "partition",
		Short: "Partition coordinators, in one direction or both",
		Long: `Starts a cluster with each component in its own network namespace, and partitions the coordinators in a different way each
round: the leader from the followers in both directions, only towards the leader, or only from the leader; the leader from
all components; a follower from all components.

It needs root and ip(8). An existing cluster cannot be partitioned: its processes share the loopback network.

Promised: as for kill-leader.`,
		Example: `  sudo mind chaos partition
  sudo mind chaos partition --rounds 10 --length 15s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.devJSON != "" {
				return exit.Misuse(errors.New("the processes of a `mind dev` share one network, which cannot be partitioned: omit --dev-json to start a cluster in network namespaces"))
			}
			if err := netns.Available(); err != nil {
				return err
			}
			a := scenario.Partition(f.rounds, f.length, f.load())
			return f.with(cmd, func(ctx context.Context, scratch string, arena *scenario.Arena) (func() error, error) {
				self, err := os.Executable()
				if err != nil {
					return nil, err
				}
				dir := filepath.Join(scratch, "data")
				if err := os.Mkdir(dir, 0o755); err != nil {
					return nil, err
				}
				fmt.Fprintln(cmd.ErrOrStderr(), "starting a cluster in network namespaces:", dir)
				c, err := netns.Start(ctx, self, dir, 3, 3, "8xH100")
				if err != nil {
					return nil, err
				}
				arena.Cluster, arena.Network = c.Cluster, c
				return c.Stop, nil
			}, a)
		},
	}
	f.bind(cmd, 5)
	cmd.Flags().StringVar(&f.devJSON, "dev-json", "", "refused: see above")
	_ = cmd.Flags().MarkHidden("dev-json")
	cmd.Flags().DurationVar(&f.length, "length", 5*time.Second, "how long a partition lasts")
	return cmd
}
