package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"
)

// Nobody waits longer than this for a completion.
const completeWithin = time.Second

// completeNodes offers the nodes.
func completeNodes(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeOne(cmd, args, "/cluster/nodes", "nodes", "node_id", "state")
}

// completeQueues offers the queues.
func completeQueues(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeOne(cmd, args, "/queues", "queues", "name", "")
}

// completeQueueFlag offers the queues for a flag, whatever was said before it.
func completeQueueFlag(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeOne(cmd, nil, "/queues", "queues", "name", "")
}

// completeTokens offers the tokens by their ids.
func completeTokens(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeOne(cmd, args, "/tokens", "tokens", "token_id", "name")
}

// completeEvaluations offers the newest evaluations.
func completeEvaluations(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeOne(cmd, nil, "/evaluations", "evaluations", "evaluation_id", "status")
}

// completeOne offers what a path lists, for the first argument of a command.
func completeOne(cmd *cobra.Command, args []string, path, list, id, about string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, ctx, cancel := forCompletion(cmd)
	defer cancel()
	if c == nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var got map[string]json.RawMessage
	var all []map[string]any
	if _, err := c.get(ctx, path, nil, &got); err != nil || json.Unmarshal(got[list], &all) != nil {
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

func forCompletion(cmd *cobra.Command) (*client, context.Context, context.CancelFunc) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	flag := func(name string) string {
		v, _ := cmd.Flags().GetString(name)
		return v
	}
	t := target{addr: flag("addr"), token: flag("token"), caCert: flag("ca-cert"), context: flag("context")}
	c, err := newClient(t)
	if err != nil {
		return nil, ctx, cancel
	}
	return c, ctx, cancel
}
