package catalog

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/jobs"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

func newCheckpoints() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:     "checkpoints JOB",
		Short:   "List the checkpoints of a job",
		Example: `  mind checkpoints job_1a2b`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: jobs.CompleteJobs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var got struct {
			Checkpoints []struct {
				ID        string      `json:"checkpoint_id"`
				Attempt   int         `json:"attempt"`
				Step      rest.Number `json:"step"`
				Size      rest.Number `json:"size_bytes"`
				Node      string      `json:"node_id"`
				Path      string      `json:"path"`
				State     string      `json:"state"`
				Pinned    bool        `json:"pinned"`
				CreatedAt *time.Time  `json:"created_at"`
			} `json:"checkpoints"`
		}
		data, err := c.Get(ctx, "/jobs/"+url.PathEscape(args[0])+"/checkpoints", nil, &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		t := render.NewTable(cmd.OutOrStdout(), "CHECKPOINT", "STEP", "ATTEMPT", "SIZE", "AGE", "STATE", "NODE", "PATH")
		for _, p := range got.Checkpoints {
			if p.Pinned {
				p.State += ", pinned"
			}
			t.Row(p.ID, fmt.Sprint(p.Step), strconv.Itoa(p.Attempt), render.Size(int64(p.Size)), render.Ago(p.CreatedAt), p.State, p.Node, p.Path)
		}
		return t.Flush()
	})
}
