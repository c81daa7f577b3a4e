package cores

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

// completeCores completes slugs of Cores.
func completeCores(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return rest.CompleteNames(cmd, args, target.CorePath+"/cores", "cores", "slug", "status")
}

// completeExecutions completes ids of executions, the newest first.
func completeExecutions(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return rest.CompleteNames(cmd, args, target.CorePath+"/executions", "executions", "execution_id", "status")
}

// completeDecisions completes ids of pending decisions, and then the options of the one that is given.
func completeDecisions(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) != 1 || !strings.HasPrefix(cmd.Use, "resolve ") {
		return rest.CompleteNames(cmd, args, target.CorePath+"/checkpoints", "checkpoints", "id", "prompt")
	}
	c, ctx, cancel := rest.ForCompletion(cmd)
	defer cancel()
	var d decision
	if c == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if _, err := c.Get(ctx, decisionPath(args[0]), nil, &d); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []cobra.Completion
	for _, o := range d.Options {
		found = append(found, cobra.CompletionWithDesc(o.ID, o.Label))
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeCore completes the flag --core.
func completeCore(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeCores(cmd, nil, typed)
}
