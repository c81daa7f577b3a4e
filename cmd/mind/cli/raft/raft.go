package raft

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	coordinators "github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	connection "github.com/mindcoordinator/mind/cmd/mind/cli/operator"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
)

// operator holds the flags of the commands that call the coordinators directly.
type operator struct {
	connection.Flags
	output string
}

// Command returns `mind raft`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "raft",
		Short: "Inspect and operate the replicas of the control plane",
		Long: `Talks to the coordinators directly, with an operator's certificate, so it works without a gateway.

The addresses of the coordinators and your certificate come from the flags, or from dev.json of a ` + "`mind dev`" + ` (MIND_DEV, or the current context).`,
		Example: `  mind raft peers
  mind raft transfer c2
  mind raft remove c3          # it will not come back
  mind raft verify             # check every coordinator
  mind raft snapshot save /backup/mind.snapshot`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRaftPeers(), newRaftTransfer(), newRaftRemove(), newRaftVerify(), newRaftLevel(), newRaftSnapshot(), newRaftRecover())
	return cmd
}

func (o *operator) bind(cmd *cobra.Command) {
	o.Bind(cmd, 10*time.Second)
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "table, json or yaml")
}

// with makes a command that calls the coordinators.
func (o *operator) with(cmd *cobra.Command, run func(ctx context.Context, cmd *cobra.Command, c *coordinators.Client, args []string) error) *cobra.Command {
	o.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := render.CheckOutput(o.output); err != nil {
			return exit.Misuse(err)
		}
		c, err := o.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), o.Timeout)
		defer cancel()
		if err := run(ctx, cmd, c, args); err != nil {
			return o.Explain(err)
		}
		return nil
	}
	return cmd
}

func newRaftTransfer() *cobra.Command {
	o := &operator{}
	return o.with(&cobra.Command{
		Use:   "transfer [COORDINATOR]",
		Short: "Transfer leadership to another coordinator",
		Long:  "Transfers leadership to the given coordinator, or to the most up-to-date one.",
		Example: `  mind raft transfer
  mind raft transfer c2`,
		Args: cobra.MaximumNArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *coordinators.Client, args []string) error {
		request := &v1.TransferLeadershipRequest{}
		if len(args) == 1 {
			request.To = args[0]
		}
		got, err := c.Operators().TransferLeadership(ctx, request)
		if err != nil {
			return err
		}
		if o.output != "table" {
			return render.Value(cmd.OutOrStdout(), o.output, map[string]string{"leader": got.GetLeader()})
		}
		fmt.Fprintln(cmd.OutOrStdout(), got.GetLeader()+" leads")
		return nil
	})
}

func newRaftRemove() *cobra.Command {
	o := &operator{}
	return o.with(&cobra.Command{
		Use:   "remove COORDINATOR",
		Short: "Remove a coordinator from the voters permanently",
		Long: `Removes a coordinator from the voters, so that it no longer counts towards a majority. Use it for a coordinator whose disk is
lost, or that is retired. It needs a majority of the current voters. Start a replacement under a new id, with join_via.`,
		Example: `  mind raft remove c3`,
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *coordinators.Client, args []string) error {
		if _, err := c.Operators().RemovePeer(ctx, &v1.RemovePeerRequest{Id: args[0]}); err != nil {
			return err
		}
		if o.output != "table" {
			return render.Value(cmd.OutOrStdout(), o.output, map[string]string{"removed": args[0]})
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is no longer a voter\n", args[0])
		return err
	})
}
