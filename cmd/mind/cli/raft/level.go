package raft

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	coordinators "github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
)

// levelView is the feature level as `mind raft level -o json` shows it.
type levelView struct {
	Level        uint32        `json:"level"`
	Possible     uint32        `json:"possible_level"`
	WaitsFor     string        `json:"waits_for,omitempty"`
	Coordinators []levelsRow   `json:"coordinators"`
	Locked       []lockedLevel `json:"locked"`
}

type levelsRow struct {
	ID      string `json:"id"`
	Voter   bool   `json:"voter"`
	Program string `json:"program,omitempty"`
	Oldest  uint32 `json:"oldest_level"`
	Newest  uint32 `json:"newest_level"`
	Reason  string `json:"reason,omitempty"`
}

type lockedLevel struct {
	Level   uint32   `json:"level"`
	Unlocks []string `json:"unlocks"`
}

func newRaftLevel() *cobra.Command {
	o := &operator{}
	cmd := o.with(&cobra.Command{
		Use:   "level",
		Short: "Show the feature level, and which coordinator holds it up",
		Long: `The feature level says which form of entries the coordinators write. It is raised when all of them run a version of mind that
supports the next one: by the leader itself, or with raise: manual by "mind raft level raise". Until then each coordinator can go
back to the version that it ran before.`,
		Example: `  mind raft level
  mind raft level raise`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *coordinators.Client, _ []string) error {
		got, err := c.Operators().GetFeatureLevel(ctx, &v1.GetFeatureLevelRequest{})
		if err != nil {
			return err
		}
		if o.output != "table" {
			return render.Value(cmd.OutOrStdout(), o.output, viewOfLevel(got))
		}
		t := render.NewTable(cmd.OutOrStdout(), "ID", "VOTER", "VERSION", "LEVELS")
		for _, one := range got.GetCoordinators() {
			t.Row(one.GetCoordinatorId(), fmt.Sprint(one.GetVoter()), cmp.Or(one.GetProgram(), "-"), levels(one))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, one := range got.GetCoordinators() {
			if one.GetReason() != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s did not answer: %s\n", one.GetCoordinatorId(), one.GetReason())
			}
		}
		fmt.Fprintf(cmd.OutOrStdout(), "level %d\n", got.GetLevel())
		for _, l := range got.GetLocked() {
			for _, what := range l.GetUnlocks() {
				fmt.Fprintf(cmd.OutOrStdout(), "level %d unlocks: %s\n", l.GetLevel(), what)
			}
		}
		if got.GetWaitsFor() != "" {
			fmt.Fprintf(cmd.OutOrStdout(), "it is not raised: %s\n", got.GetWaitsFor())
		}
		return nil
	})
	cmd.AddCommand(newRaftLevelRaise())
	return cmd
}

func levels(s *v1.SupportedLevels) string {
	switch {
	case s.GetNewestLevel() == 0:
		return "unknown"
	case s.GetOldestLevel() == s.GetNewestLevel():
		return fmt.Sprint(s.GetNewestLevel())
	}
	return fmt.Sprintf("%d-%d", s.GetOldestLevel(), s.GetNewestLevel())
}

func viewOfLevel(got *v1.GetFeatureLevelResponse) levelView {
	out := levelView{Level: got.GetLevel(), Possible: got.GetPossibleLevel(), WaitsFor: got.GetWaitsFor(), Coordinators: []levelsRow{}, Locked: []lockedLevel{}}
	for _, s := range got.GetCoordinators() {
		out.Coordinators = append(out.Coordinators, levelsRow{s.GetCoordinatorId(), s.GetVoter(), s.GetProgram(), s.GetOldestLevel(), s.GetNewestLevel(), s.GetReason()})
	}
	for _, l := range got.GetLocked() {
		out.Locked = append(out.Locked, lockedLevel{l.GetLevel(), l.GetUnlocks()})
	}
	return out
}

func newRaftLevelRaise() *cobra.Command {
	o := &operator{}
	return o.with(&cobra.Command{
		Use:   "raise",
		Short: "Raise the feature level as far as all coordinators support it",
		Long: `Raises the feature level to the highest one that all coordinators support. It cannot be lowered: a version of mind that does not
support the new level cannot be started on this cluster any more.`,
		Example: `  mind raft level raise`,
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *coordinators.Client, _ []string) error {
		got, err := c.Operators().RaiseFeatureLevel(ctx, &v1.RaiseFeatureLevelRequest{})
		if err != nil {
			return err
		}
		if o.output != "table" {
			return render.Value(cmd.OutOrStdout(), o.output, map[string]uint32{"level": got.GetLevel(), "from": got.GetFrom()})
		}
		if got.GetFrom() == got.GetLevel() {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the level is %d already\n", got.GetLevel())
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "the level was raised from %d to %d\n", got.GetFrom(), got.GetLevel())
		return err
	})
}
