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
		Short: "Cut coordinators off from each other, in one direction or in both",
		Long: `Starts a cluster of its own, each component in a network namespace of its own, and cuts the ways between the coordinators, in
another way in each round: the leader from the others, both ways; so that it hears nobody; so that nobody hears it; the
leader from everybody; a follower from everybody.

It needs root and ip(8). A cluster that is there already cannot be partitioned: its processes share the loopback network.

Promised: as for kill-leader.`,
		Example: `  sudo mind chaos partition
  sudo mind chaos partition --rounds 10 --length 15s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.devJSON != "" {
				return exit.Misuse(errors.New("the processes of a `mind dev` share one network, which cannot be partitioned: leave --dev-json away, and it starts a cluster in network namespaces"))
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
