package cli

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

func newCheckpoints() *cobra.Command {
	return rest(&cobra.Command{
		Use:     "checkpoints JOB",
		Short:   "List the checkpoints of a job",
		Example: `  mind checkpoints job_1a2b`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeJobs,
	}, func(ctx context.Context, cmd *cobra.Command, c *client, output string, args []string) error {
		var got struct {
			Checkpoints []struct {
				ID        string     `json:"checkpoint_id"`
				Attempt   int        `json:"attempt"`
				Step      number     `json:"step"`
				Size      number     `json:"size_bytes"`
				Node      string     `json:"node_id"`
				Path      string     `json:"path"`
				CreatedAt *time.Time `json:"created_at"`
			} `json:"checkpoints"`
		}
		data, err := c.get(ctx, "/jobs/"+url.PathEscape(args[0])+"/checkpoints", nil, &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return printData(cmd.OutOrStdout(), output, data)
		}
		t := newTable(cmd.OutOrStdout(), "CHECKPOINT", "STEP", "ATTEMPT", "SIZE", "AGE", "NODE", "PATH")
		for _, p := range got.Checkpoints {
			t.row(p.ID, fmt.Sprint(p.Step), strconv.Itoa(p.Attempt), size(int64(p.Size)), ago(p.CreatedAt), p.Node, p.Path)
		}
		return t.flush()
	})
}
