package rest

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

// completeWithin limits the time of a completion.
const completeWithin = time.Second

// CompleteNames completes the first argument of a command with the items that a path lists: the field id of each, described
// by the field about. If it cannot get the list, it offers nothing.
func CompleteNames(cmd *cobra.Command, args []string, path, list, id, about string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, ctx, cancel := ForCompletion(cmd)
	defer cancel()
	if c == nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var got map[string]json.RawMessage
	var all []map[string]any
	if _, err := c.Get(ctx, path, nil, &got); err != nil || json.Unmarshal(got[list], &all) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []cobra.Completion
	for _, one := range all {
		name, _ := one[id].(string)
		description, _ := one[about].(string)
		found = append(found, cobra.CompletionWithDesc(name, description))
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// ForCompletion makes a client for a completion, with a short timeout. It returns nil if it cannot.
func ForCompletion(cmd *cobra.Command) (*Client, context.Context, context.CancelFunc) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	flag := func(name string) string {
		v, _ := cmd.Flags().GetString(name)
		return v
	}
	t := target.Flags{Addr: flag("addr"), Token: flag("token"), CaCert: flag("ca-cert"), Context: flag("context")}
	c, err := NewClient(t)
	if err != nil {
		return nil, ctx, cancel
	}
	return c, ctx, cancel
}
