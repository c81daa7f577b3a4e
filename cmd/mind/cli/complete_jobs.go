package cli

import (
	"net/url"

	"github.com/spf13/cobra"
)

// completeJobs offers the newest jobs. Where they cannot be had, it offers nothing.
func completeJobs(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, ctx, cancel := forCompletion(cmd)
	defer cancel()
	if c == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	jobs, _, _, err := listJobs(ctx, c, url.Values{}, 50)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []cobra.Completion
	for _, j := range jobs {
		found = append(found, cobra.CompletionWithDesc(j.ID, j.Name+" "+j.Status))
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
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
