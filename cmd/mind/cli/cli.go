// Package cli is the command line of Mind: it speaks REST to a gateway, and gRPC to the coordinators where an operator
// looks at the replicas themselves.
//
// Contract: exit code 0: done; 1: refused or failed; 2: misuse; 130: interrupted. `submit --wait` and `submit --follow` exit as
// the job did, and with 75 when it was canceled or lost. Answers go to stdout as a table, JSON or YAML; errors go to stderr, as
// one line that says what to do, or everything that is wrong with a request. Each write carries an idempotency key, so that it
// is safe to send it again when the connection breaks.
package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// AddTo adds the commands to the root.
func AddTo(root *cobra.Command, version string) {
	root.AddGroup(
		&cobra.Group{ID: "jobs", Title: "Jobs:"},
		&cobra.Group{ID: "cluster", Title: "Cluster:"},
	)
	groups := map[string][]*cobra.Command{
		"jobs": {
			newSubmit(), newJobs(), newJob(), newLogs(), newMetrics(), newCancel(), newPause(), newResume(), newRetry(),
			newExplain(), newCheckpoints(), newEvaluate(), newEvaluations(), newEvaluation(),
		},
		"cluster": {newNodes(), newDrain(), newEnable(), newNode(), newQueue(), newQueues(), newTop(), newEvents(), newRaft(), newToken(), newQuota(), newAudit(), newData(), newLaunchers(), newTLS(), newChaos()},
		"":        {newContext(), newVersion(version)},
	}
	for group, commands := range groups {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	explainArguments(root)
	refuseUnknownHelp(root)
	root.SetFlagErrorFunc(flagMisuse)
}

func newVersion(version string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  mind version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "" || output == "table" {
				fmt.Fprintln(cmd.OutOrStdout(), version)
				return nil
			}
			return printValue(cmd.OutOrStdout(), output, map[string]string{"version": version})
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "table, json or yaml")
	return cmd
}
