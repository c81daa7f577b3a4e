package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newJobs() *cobra.Command {
	var status, labels []string
	var queue, orderBy string
	var limit int
	cmd := rest(&cobra.Command{
		Use:   "jobs",
		Short: "List jobs",
		Example: `  mind jobs
  mind jobs --status TRAINING --status QUEUED
  mind jobs --label team=vision --limit 500 -o json`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *client, output string, _ []string) error {
		if err := positive("limit", limit); err != nil {
			return err
		}
		query := url.Values{}
		for _, v := range status {
			query.Add("status", strings.ToUpper(v))
		}
		for _, v := range labels {
			query.Add("label", v)
		}
		if queue != "" {
			query.Set("queue", queue)
		}
		if orderBy != "" {
			query.Set("order_by", orderBy)
		}
		all, raw, total, err := listJobs(ctx, c, query, limit)
		if err != nil {
			return err
		}
		if output != "table" {
			return printValue(cmd.OutOrStdout(), output, total.of("jobs", raw))
		}
		if err := jobTable(cmd, all); err != nil {
			return err
		}
		total.more(cmd, len(all))
		return nil
	})
	f := cmd.Flags()
	f.StringArrayVar(&status, "status", nil, "only jobs of this status, such as QUEUED; may be repeated")
	f.StringArrayVar(&labels, "label", nil, "only jobs with this label KEY=VALUE; may be repeated")
	f.StringVar(&queue, "queue", "", "only jobs of this queue")
	f.StringVar(&orderBy, "order-by", "", `"created_at desc" (default), "created_at" or "priority desc"`)
	f.IntVar(&limit, "limit", 50, "how many")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(strings.Fields(
		"PENDING QUEUED SCHEDULING PREPARING TRAINING CHECKPOINTING PAUSED EVALUATING EXPORTING COMPLETED FAILED CANCELLED PREEMPTED"),
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// listJobs reads the jobs that a query asks for, up to limit.
func listJobs(ctx context.Context, c *client, query url.Values, limit int) ([]job, []json.RawMessage, count, error) {
	return list[job](ctx, c, "/jobs", "jobs", query, limit)
}

func jobTable(cmd *cobra.Command, jobs []job) error {
	t := newTable(cmd.OutOrStdout(), "JOB", "NAME", "STATUS", "GPUS", "NODES", "PRIO", "AGE", "PROGRESS", "REASON")
	for i := range jobs {
		j := &jobs[i]
		t.row(j.ID, j.Name, j.Status, j.gpus(), strings.Join(j.Nodes, ","), strconv.Itoa(j.Priority), ago(j.CreatedAt), j.progress(), j.why())
	}
	return t.flush()
}

func newJob() *cobra.Command {
	return rest(&cobra.Command{
		Use:   "job JOB",
		Short: "Show one job",
		Example: `  mind job job_1a2b
  mind job job_1a2b -o json`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeJobs,
	}, func(ctx context.Context, cmd *cobra.Command, c *client, output string, args []string) error {
		var j job
		data, err := c.get(ctx, "/jobs/"+url.PathEscape(args[0]), nil, &j)
		if err != nil {
			return err
		}
		return showJob(cmd, output, data, &j)
	})
}

func showJob(cmd *cobra.Command, output string, data json.RawMessage, j *job) error {
	if output != "table" {
		return printData(cmd.OutOrStdout(), output, data)
	}
	f := newFacts(cmd.OutOrStdout())
	f.add("job", j.ID)
	f.add("name", j.Name)
	f.add("status", j.Status)
	f.add("reason", j.Reason)
	if j.QueuePosition != nil {
		f.add("position", strconv.Itoa(*j.QueuePosition)+" in queue "+j.Queue)
	} else {
		f.add("queue", j.Queue)
	}
	if j.StartsAt != nil {
		starts := "in " + short(time.Until(*j.StartsAt)) + " at the earliest"
		if !j.Held {
			starts += ", by an estimate from the jobs of your tenant"
		}
		f.add("starts", starts)
	}
	f.add("priority", strconv.Itoa(j.Priority))
	f.add("user", j.User)
	if len(j.Command.Argv) > 0 {
		f.add("command", strings.Join(j.Command.Argv, " "))
	} else {
		f.add("command", j.Command.Command)
	}
	f.add("cwd", j.Command.Cwd)
	f.add("gpus", j.gpus())
	f.add("nodes", strings.Join(j.Nodes, ","))
	if j.Attempt > 0 {
		f.add("attempt", strconv.Itoa(j.Attempt))
	}
	f.add("retries", j.retried())
	f.add("stopping", j.Stopping)
	f.add("progress", j.progress())
	f.add("checkpoint", j.LastCheckpoint)
	if j.ExitCode != nil {
		f.add("exit code", strconv.Itoa(*j.ExitCode))
	}
	f.add("error", strings.TrimSpace(j.ErrorType+" "+j.ErrorMessage))
	for _, at := range []struct {
		name string
		time *time.Time
	}{{"created", j.CreatedAt}, {"started", j.StartedAt}, {"finished", j.FinishedAt}} {
		if at.time != nil {
			f.add(at.name, at.time.Local().Format(time.DateTime)+" ("+ago(at.time)+" ago)")
		}
	}
	if err := f.flush(); err != nil || len(j.Past) == 0 {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout())
	return attemptTable(cmd.OutOrStdout(), j.Past)
}

// attemptTable lists the attempts that are over.
func attemptTable(w io.Writer, past []attempt) error {
	t := newTable(w, "ATTEMPT", "NODES", "RAN", "ENDED", "EXIT", "CAUSE", "FAILED ON", "REASON")
	for _, a := range past {
		ran, ended, exit := "", "", ""
		if a.StartedAt != nil && a.FinishedAt != nil {
			ran = short(a.FinishedAt.Sub(*a.StartedAt))
		}
		if a.FinishedAt != nil {
			ended = ago(a.FinishedAt) + " ago"
		}
		if a.ExitCode != nil {
			exit = strconv.Itoa(*a.ExitCode)
		}
		t.row(strconv.Itoa(a.Attempt), strings.Join(a.Nodes, ","), ran, ended, exit, a.ErrorType, a.FailedNode, a.Reason)
	}
	return t.flush()
}
