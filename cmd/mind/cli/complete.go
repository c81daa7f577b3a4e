package cli

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// Nobody waits longer than this for a completion.
const completeWithin = time.Second

// completeJobs offers the newest jobs. Where they cannot be had, it offers nothing.
func completeJobs(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, ctx, cancel := forCompletion(cmd)
	defer cancel()
	if c == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	jobs, _, _, err := c.list(ctx, url.Values{}, 50)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []cobra.Completion
	for _, j := range jobs {
		found = append(found, cobra.CompletionWithDesc(j.ID, j.Name+" "+j.Status))
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

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

// completeFlags offers what the flags of a submit may say.
func completeFlags(cmd *cobra.Command) {
	fixed := func(words ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	}
	for flag, complete := range map[string]cobra.CompletionFunc{
		"queue": completeQueueFlag, "after": completeJobs, "topology": fixed("any", "nvlink", "single_node"),
		"retry-on": fixed("node_lost", "gpu_fault", "launch_failed", "data_fetch", "exit"),
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, complete) // it fails only for a flag that is not there, or twice
	}
}

// completeTokens offers the tokens by their ids.
func completeTokens(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeOne(cmd, args, "/tokens", "tokens", "token_id", "name")
}

// completeEvaluations offers the newest evaluations.
func completeEvaluations(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeOne(cmd, nil, "/evaluations", "evaluations", "evaluation_id", "status")
}

// completeContexts offers the contexts.
func completeContexts(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := readContexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return sortedKeys(all.Contexts), cobra.ShellCompDirectiveNoFileComp
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
	c, err := t.client()
	if err != nil {
		return nil, ctx, cancel
	}
	return c, ctx, cancel
}
