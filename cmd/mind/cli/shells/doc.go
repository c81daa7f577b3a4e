// Package shells has the commands that reach into running jobs: exec and port-forward.
//
// A command in a job goes on when a connection breaks (package tunnel), and its exit code is that of the command. The terminal is
// as it was before, however the command ends.
package shells

import (
	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

var verbs = rest.Verbs{newExec, newPortForward}

// Commands returns the commands of this package.
func Commands() []*cobra.Command { return verbs.Make() }
