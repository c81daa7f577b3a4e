package cli

import (
	"context"
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
	c, ctx, cancel := forCompletion(cmd)
	defer cancel()
	if c == nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var got struct {
		Nodes []node `json:"nodes"`
	}
	if _, err := c.get(ctx, "/cluster/nodes", nil, &got); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []cobra.Completion
	for _, n := range got.Nodes {
		found = append(found, cobra.CompletionWithDesc(n.ID, n.State))
	}
	return found, cobra.ShellCompDirectiveNoFileComp
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
