// Package cli implements the command line of Mind. It calls a gateway over REST, and the coordinators over gRPC for
// operators' commands on single replicas.
//
// Contract: exit code 0: done; 1: refused or failed; 2: misuse; 130: interrupted. `submit --wait` and `submit --follow`
// exit with the code of the job, or with 75 if it was canceled or lost; `core invoke` exits with 75 if the execution is not
// over. Results go to stdout as a table, JSON or YAML.
// Errors go to stderr, as one line that says what to do, or as a list of all faults of a request. Each write carries an
// idempotency key, so it can be repeated safely when the connection breaks.
package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/access"
	"github.com/mindcoordinator/mind/cmd/mind/cli/catalog"
	"github.com/mindcoordinator/mind/cmd/mind/cli/chaos"
	"github.com/mindcoordinator/mind/cmd/mind/cli/cluster"
	"github.com/mindcoordinator/mind/cmd/mind/cli/cores"
	"github.com/mindcoordinator/mind/cmd/mind/cli/explain"
	"github.com/mindcoordinator/mind/cmd/mind/cli/flow"
	"github.com/mindcoordinator/mind/cmd/mind/cli/jobs"
	"github.com/mindcoordinator/mind/cmd/mind/cli/policy"
	"github.com/mindcoordinator/mind/cmd/mind/cli/raft"
	"github.com/mindcoordinator/mind/cmd/mind/cli/schedule"
	"github.com/mindcoordinator/mind/cmd/mind/cli/shells"
	"github.com/mindcoordinator/mind/cmd/mind/cli/simulate"
)

// AddTo adds the commands to the root.
func AddTo(root *cobra.Command, version string) {
	root.AddGroup(
		&cobra.Group{ID: "jobs", Title: "Jobs:"},
		&cobra.Group{ID: "flows", Title: "Flows:"},
		&cobra.Group{ID: "cluster", Title: "Cluster:"},
	)
	groups := map[string][]*cobra.Command{
		"jobs":    slices.Concat(jobs.Commands(), shells.Commands(), []*cobra.Command{explain.Command(), schedule.Command()}, catalog.Commands()),
		"flows":   append([]*cobra.Command{flow.Command()}, cores.Commands()...),
		"cluster": slices.Concat(cluster.Commands(), access.Commands(), []*cobra.Command{policy.Command(), catalog.Launchers(), raft.Command(), simulate.Command(), chaos.Command()}),
		"":        {access.ContextCommand(), newVersion(version)},
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
