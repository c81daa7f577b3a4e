package cli

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

func newQueue() *cobra.Command {
	var limit int
	cmd := rest(&cobra.Command{
		Use:   "queue [QUEUE]",
		Short: "Show the jobs that wait, and why",
		Example: `  mind queue
  mind queue research --limit 20`,
		Args: cobra.MaximumNArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *client, s *session, args []string) error {
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		if len(args) == 1 {
			query.Set("queue", args[0])
		}
		var got struct {
			Depth int `json:"depth"`
			Jobs  []struct {
				ID        string     `json:"job_id"`
				Name      string     `json:"name"`
				Queue     string     `json:"queue"`
				Position  int        `json:"position"`
				Priority  int        `json:"priority"`
				GPUs      int        `json:"gpu_count"`
				GPUType   string     `json:"gpu_type"`
				Reason    string     `json:"reason"`
				CreatedAt *time.Time `json:"created_at"`
				Wait      *float64   `json:"estimated_wait_seconds"`
			} `json:"jobs"`
		}
		data, err := c.get(ctx, "/queue", query, &got)
		if err != nil {
			return err
		}
		if s.output != "table" {
			return printData(cmd.OutOrStdout(), s.output, data)
		}
		t := newTable(cmd.OutOrStdout(), "POS", "JOB", "NAME", "QUEUE", "PRIO", "GPUS", "AGE", "STARTS IN", "REASON")
		for _, j := range got.Jobs {
			wait := ""
			if j.Wait != nil {
				wait = "~" + short(time.Duration(*j.Wait*float64(time.Second)))
			}
			gpus := strconv.Itoa(j.GPUs)
			if j.GPUType != "" {
				gpus += "x" + j.GPUType
			}
			t.row(strconv.Itoa(j.Position), j.ID, j.Name, j.Queue, strconv.Itoa(j.Priority), gpus, ago(j.CreatedAt), wait, j.Reason)
		}
		if err := t.flush(); err != nil {
			return err
		}
		if got.Depth > len(got.Jobs) {
			fmt.Fprintf(cmd.ErrOrStderr(), "%d jobs wait in all\n", got.Depth)
		}
		return nil
	})
	cmd.Flags().IntVar(&limit, "limit", 100, "how many, from the head")
	return cmd
}

func newQueues() *cobra.Command {
	return rest(&cobra.Command{
		Use:     "queues",
		Short:   "List the queues",
		Example: `  mind queues`,
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *client, s *session, _ []string) error {
		var got struct {
			Queues []struct {
				Name    string `json:"name"`
				Weight  int    `json:"weight"`
				Queued  int    `json:"queued"`
				Running int    `json:"running"`
				GPUs    int    `json:"gpus_allocated"`
			} `json:"queues"`
		}
		data, err := c.get(ctx, "/queues", nil, &got)
		if err != nil {
			return err
		}
		if s.output != "table" {
			return printData(cmd.OutOrStdout(), s.output, data)
		}
		t := newTable(cmd.OutOrStdout(), "QUEUE", "WEIGHT", "QUEUED", "RUNNING", "GPUS")
		for _, q := range got.Queues {
			t.row(q.Name, strconv.Itoa(q.Weight), strconv.Itoa(q.Queued), strconv.Itoa(q.Running), strconv.Itoa(q.GPUs))
		}
		return t.flush()
	})
}
