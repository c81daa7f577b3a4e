// Package jobs holds the commands about jobs: submit, list, show, explain, control, logs and metrics.
//
// It guarantees that a submit and a control of a job are carried out at most once however often the connection breaks, that a
// log is printed without gap or repeat, and that `submit --wait` exits as the job did. Watching is not owning: a command that
// is interrupted leaves the job alone, and says so.
package jobs

import "github.com/spf13/cobra"

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newSubmit(), newJobs(), newJob(), newExplain(), newLogs(), newMetrics(), newCancel(), newPause(), newResume(), newRetry(),
	}
}
