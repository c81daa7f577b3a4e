package jobs

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

func newExplain() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "explain JOB",
		Short: "Explain why a job has its status",
		Long: `Explains why a job has its status. For a waiting job it shows what the job waits for and, if known, when it starts and after
which job. The start is an estimate from the jobs of your tenant alone, so it is the earliest possible one.`,
		Example: `  mind explain job_1a2b`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: CompleteJobs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var got struct {
			Status   string   `json:"status"`
			Reason   string   `json:"reason"`
			Position *int     `json:"queue_position"`
			Details  []string `json:"details"`
		}
		data, err := c.Get(ctx, "/jobs/"+url.PathEscape(args[0])+"/explain", nil, &got)
		if err != nil {
			return err
		}
		w := cmd.OutOrStdout()
		if output != "table" {
			return render.Data(w, output, data)
		}
		position := ""
		if got.Position != nil {
			position = fmt.Sprintf(", place %d in its queue", *got.Position)
		}
		fmt.Fprintf(w, "%s is %s%s\n", args[0], got.Status, position)
		if got.Reason != "" {
			fmt.Fprintln(w, render.Printable(got.Reason))
		}
		for _, d := range got.Details {
			fmt.Fprintln(w, "- "+render.Printable(d))
		}
		return nil
	})
}
