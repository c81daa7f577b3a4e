// Package catalog holds the commands about what jobs start from and leave behind: launchers, checkpoints and evaluations.
//
// An evaluation is a job with results: what is common comes from package jobs.
package catalog

import "github.com/spf13/cobra"

// Commands are the commands of this package, without those about launchers.
func Commands() []*cobra.Command {
	return []*cobra.Command{newCheckpoints(), newEvaluate(), newEvaluations(), newEvaluation()}
}
