package jobs

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// CompleteJobs completes ids of the newest jobs. If it cannot list them, it offers nothing.
func CompleteJobs(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, ctx, cancel := rest.ForCompletion(cmd)
	defer cancel()
	if c == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	jobs, _, _, err := List(ctx, c, url.Values{}, 50)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []cobra.Completion
	for _, j := range jobs {
		found = append(found, cobra.CompletionWithDesc(j.ID, j.Name+" "+j.Status))
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeFlags completes the values of the flags of a submit.
func completeFlags(cmd *cobra.Command) {
	fixed := func(words ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	}
	for flag, complete := range map[string]cobra.CompletionFunc{
		"queue": completeQueueFlag, "after": CompleteJobs, "topology": fixed("any", "nvlink", "single_node", "same_domain", "prefer", "spread", "nvlink,same_domain"),
		"topology-level": fixed("clique", "leaf", "spine", "block"),
		"retry-on":       fixed("node_lost", "gpu_fault", "launch_failed", "data_fetch", "exit"),
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, complete) // fails only for an unknown flag, or if called twice
	}
}

// completeQueueFlag completes names of queues for a flag.
func completeQueueFlag(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return rest.CompleteNames(cmd, nil, "/queues", "queues", "name", "")
}
