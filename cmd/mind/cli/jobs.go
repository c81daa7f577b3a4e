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

type jobPage struct {
	Jobs []job  `json:"jobs"`
	Next string `json:"next_page_token"`
	count
}

// count is how many there are of what a list lists.
type count struct {
	Total int `json:"total_count"`
	// AtLeast: there may be more; not all were looked at.
	AtLeast bool `json:"total_count_is_minimum"`
}

// more says on stderr that there are more than were shown.
func (n count) more(cmd *cobra.Command, shown int) {
	switch {
	case n.AtLeast:
		fmt.Fprintf(cmd.ErrOrStderr(), "%d of at least %d; more with --limit\n", shown, max(shown, n.Total))
	case n.Total > shown:
		fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d; more with --limit\n", shown, n.Total)
	}
}

// of is a list as JSON, with how many there are.
func (n count) of(name string, raw []json.RawMessage) map[string]any {
	return map[string]any{name: raw, "total_count": n.Total, "total_count_is_minimum": n.AtLeast}
}

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
	}, func(ctx context.Context, cmd *cobra.Command, c *client, s *session, _ []string) error {
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
		all, raw, total, err := c.list(ctx, query, limit)
		if err != nil {
			return err
		}
		if s.output != "table" {
			return printValue(cmd.OutOrStdout(), s.output, total.of("jobs", raw))
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

// list fetches pages until there are limit jobs, or no more. A page may be empty and not the last.
func (c *client) list(ctx context.Context, query url.Values, limit int) (all []job, raw []json.RawMessage, total count, err error) {
	const page = 100
	raw = []json.RawMessage{}
	for len(all) < limit {
		query.Set("page_size", strconv.Itoa(min(page, limit-len(all))))
		var got jobPage
		var each struct {
			Jobs []json.RawMessage `json:"jobs"`
		}
		data, err := c.get(ctx, "/jobs", query, &got)
		if err != nil {
			return nil, nil, count{}, err
		}
		if err := json.Unmarshal(data, &each); err != nil {
			return nil, nil, count{}, err
		}
		all, raw, total = append(all, got.Jobs...), append(raw, each.Jobs...), got.count
		if got.Next == "" || got.Next == query.Get("page_token") {
			break
		}
		query.Set("page_token", got.Next)
	}
	return all, raw, total, nil
}

func jobTable(cmd *cobra.Command, jobs []job) error {
	t := newTable(cmd.OutOrStdout(), "JOB", "NAME", "STATUS", "GPUS", "NODES", "PRIO", "AGE", "PROGRESS", "REASON")
	for i := range jobs {
		j := &jobs[i]
		t.row(j.ID, j.Name, j.Status, j.gpus(), list(j.Nodes), strconv.Itoa(j.Priority), ago(j.CreatedAt), j.progress(), j.why())
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
	}, func(ctx context.Context, cmd *cobra.Command, c *client, s *session, args []string) error {
		var j job
		data, err := c.get(ctx, "/jobs/"+url.PathEscape(args[0]), nil, &j)
		if err != nil {
			return err
		}
		return showJob(cmd, s, data, &j)
	})
}

func showJob(cmd *cobra.Command, s *session, data json.RawMessage, j *job) error {
	if s.output != "table" {
		return printData(cmd.OutOrStdout(), s.output, data)
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
	f.add("nodes", list(j.Nodes))
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
		t.row(strconv.Itoa(a.Attempt), list(a.Nodes), ran, ended, exit, a.ErrorType, a.FailedNode, a.Reason)
	}
	return t.flush()
}
