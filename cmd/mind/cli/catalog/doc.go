// Package catalog holds the commands for launchers, checkpoints and evaluations.
//
// An evaluation is a job with results; the code that it shares with other jobs is in package jobs.
package catalog

import "github.com/spf13/cobra"

// Commands returns the commands of this package except those for launchers.
func Commands() []*cobra.Command {
	return []*cobra.Command{newCheckpoints(), newCheckpoint(), newEvaluate(), newEvaluations(), newEvaluation()}
}
