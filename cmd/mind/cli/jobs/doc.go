// Package jobs holds the commands for jobs: submit, list, show, change, control, logs and metrics.
//
// A submit or a control of a job is carried out at most once, however often the connection breaks. A log is printed without
// gap or repeat. `submit --wait` exits with the code of the job. Interrupting a command that watches a job does not affect
// the job, and the command says so.
package jobs

import (
	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

var jobVerbs = rest.Verbs{
	newSubmit, newJobs, newJob, newLogs, newMetrics, newCancel, newPause, newResume, newRetry, newHold, newRelease,
}

// Commands returns the commands of this package.
func Commands() []*cobra.Command { return jobVerbs.Make() }
