package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

func newJobs() *cobra.Command {
	var status, labels []string
	var queue, orderBy, search, user, since string
	var limit int
	var watch bool
	cmd := rest.Command(&cobra.Command{
		Use:   "jobs",
		Short: "List jobs",
		Example: `  mind jobs
  mind jobs --status TRAINING,QUEUED --watch
  mind jobs --user me --search lora
  mind jobs --label team=vision --limit 500 -o json`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		if err := rest.Positive("limit", limit); err != nil {
			return err
		}
		query := url.Values{}
		for _, v := range status {
			query.Add("status", strings.ToUpper(v))
		}
		for _, v := range labels {
			query.Add("label", v)
		}
		for name, v := range map[string]string{"queue": queue, "order_by": orderBy, "search": search, "user": user} {
			if v != "" {
				query.Set(name, v)
			}
		}
		var from time.Time
		if since != "" {
			var err error
			if from, err = request.Ago(since, time.Now()); err != nil {
				return exit.Misuse(fmt.Errorf("--since: %w", err))
			}
		}
		if watch && output == "table" && render.IsTerminal(cmd.OutOrStdout()) {
			return watchJobs(ctx, cmd, c, query, limit, from)
		}
		all, raw, total, err := List(ctx, c, query, limit)
		if err != nil {
			return err
		}
		if !from.IsZero() {
			all, raw = newer(all, raw, from)
		}
		if output != "table" {
			return render.Value(cmd.OutOrStdout(), output, total.Of("jobs", raw))
		}
		if err := jobTable(cmd.OutOrStdout(), all); err != nil {
			return err
		}
		if from.IsZero() {
			total.More(cmd, len(all))
		}
		return nil
	})
	f := cmd.Flags()
	f.StringSliceVar(&status, "status", nil, "only jobs with this status, such as QUEUED,TRAINING; repeatable")
	f.StringArrayVar(&labels, "label", nil, "only jobs with this label KEY=VALUE; repeatable")
	f.StringVar(&queue, "queue", "", "only jobs of this queue")
	f.StringVar(&search, "search", "", "only jobs with this in their name, or whose id begins with it")
	f.StringVar(&user, "user", "", "only jobs that this user submitted; me: you")
	f.StringVar(&orderBy, "order-by", "",
		`"created_at desc" (default), "created_at", "priority desc", "name", "name desc", "started_at desc", "finished_at desc" or "gpu_count desc"`)
	f.IntVar(&limit, "limit", 50, "how many")
	f.StringVar(&since, "since", "", "of those, only jobs that were submitted since: 2h, 3d, a day such as 2026-01-31, or a time such as 2026-01-31T08:00:00Z")
	f.BoolVarP(&watch, "watch", "w", false, "on a terminal: show them again and again until Ctrl-C")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(strings.Fields(
		"PENDING QUEUED SCHEDULING PREPARING TRAINING CHECKPOINTING PAUSED EVALUATING EXPORTING COMPLETED FAILED CANCELLED PREEMPTED"),
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// List reads the jobs that match a query, at most limit.
func List(ctx context.Context, c *rest.Client, query url.Values, limit int) ([]Job, []json.RawMessage, rest.Count, error) {
	return rest.List[Job](ctx, c, "/jobs", "jobs", query, limit)
}

// newer leaves out the jobs that were submitted before a time.
func newer(all []Job, raw []json.RawMessage, from time.Time) ([]Job, []json.RawMessage) {
	var rows []Job
	rest := []json.RawMessage{}
	for i := range all {
		if all[i].CreatedAt != nil && !all[i].CreatedAt.Before(from) {
			rows, rest = append(rows, all[i]), append(rest, raw[i])
		}
	}
	return rows, rest
}

// watchEvery is the pause between two looks at the jobs.
const watchEvery = 2 * time.Second

// watchJobs shows the jobs again and again, in place, until ctx ends.
func watchJobs(ctx context.Context, cmd *cobra.Command, c *rest.Client, query url.Values, limit int, from time.Time) error {
	w := cmd.OutOrStdout()
	fmt.Fprint(w, "\x1b[2J")
	for {
		var page bytes.Buffer
		all, raw, _, err := List(ctx, c, query, limit)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			fmt.Fprintln(&page, "mind: "+exit.OneLine(err))
		default:
			all, _ = newer(all, raw, from)
			if err := jobTable(&page, all); err != nil {
				return err
			}
		}
		if err := render.Redraw(w, page.String()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}

func jobTable(w io.Writer, jobs []Job) error {
	t := render.NewTable(w, "JOB", "NAME", "STATUS", "GPUS", "NODES", "PRIO", "AGE", "PROGRESS", "REASON")
	for i := range jobs {
		j := &jobs[i]
		t.Row(j.ID, j.Name, j.Status, j.GPUsWanted(), strings.Join(j.Nodes, ","), strconv.Itoa(j.Priority), render.Ago(j.CreatedAt), j.Steps(), j.Why())
	}
	return t.Flush()
}

func newJob() *cobra.Command {
	var (
		tasks  bool
		status []string
		limit  int
	)
	cmd := rest.Command(&cobra.Command{
		Use:   "job JOB",
		Short: "Show one job, or the elements of an array",
		Long: `Shows one job, its earlier attempts, and what the GPUs of the newest attempt do: how busy each one is, its memory and power, with the
mean (of memory the peak) of the attempt. Simulated GPUs have no sensors.`,
		Example: `  mind job job_1a2b
  mind job job_1a2b -o json
  mind job 'job_1azz[7]'
  mind job job_1azz --tasks --status FAILED`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: CompleteJobs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		if tasks {
			return showTasks(ctx, cmd, c, output, args[0], status, limit)
		}
		var j Job
		data, err := c.Get(ctx, "/jobs/"+url.PathEscape(args[0]), nil, &j)
		if err != nil {
			return err
		}
		if err := showJob(cmd, output, data, &j); err != nil || output != "table" {
			return err
		}
		return printUse(ctx, c, cmd.OutOrStdout(), &j)
	})
	f := cmd.Flags()
	f.BoolVar(&tasks, "tasks", false, "list the elements of a job array")
	f.StringArrayVar(&status, "status", nil, "with --tasks: only elements with this status, such as FAILED; repeatable")
	f.IntVar(&limit, "limit", 50, "with --tasks: how many")
	return cmd
}

func showJob(cmd *cobra.Command, output string, data json.RawMessage, j *Job) error {
	if output != "table" {
		return render.Data(cmd.OutOrStdout(), output, data)
	}
	f := render.NewFacts(cmd.OutOrStdout())
	f.Add("job", j.ID)
	f.Add("name", j.Name)
	f.Add("status", j.Status)
	f.Add("reason", j.Reason)
	if j.RequestDropped {
		f.Add("request", "dropped, because the job ended long ago: it cannot be retried")
	}
	if j.QueuePosition != nil {
		f.Add("position", strconv.Itoa(*j.QueuePosition)+" in queue "+j.Queue)
	} else {
		f.Add("queue", j.Queue)
	}
	if j.ReservedAt != nil {
		f.Add("reserved", "starts in "+render.Duration(time.Until(*j.ReservedAt))+" at the latest, on "+strings.Join(j.ReservedOn, ", "))
	}
	if j.StartsAt != nil {
		starts := "in " + render.Duration(time.Until(*j.StartsAt)) + " at the earliest"
		if !j.Held {
			starts += ", by an estimate from the jobs of your tenant"
		}
		f.Add("starts", starts)
	}
	f.Add("priority", strconv.Itoa(j.Priority))
	f.Add("user", j.User)
	if len(j.Command.Argv) > 0 {
		f.Add("command", strings.Join(j.Command.Argv, " "))
	} else {
		f.Add("command", j.Command.Command)
	}
	f.Add("cwd", j.Command.Cwd)
	f.Add("upload", j.Command.Upload)
	f.Add("gpus", j.GPUsWanted())
	f.Add("nodes", strings.Join(j.Nodes, ","))
	if j.Array != nil {
		j.Array.addTo(f)
	}
	if j.Attempt > 0 {
		f.Add("attempt", strconv.Itoa(j.Attempt))
	}
	f.Add("retries", j.retried())
	f.Add("stopping", j.Stopping)
	f.Add("progress", j.Steps())
	f.Add("checkpoint", j.LastCheckpoint)
	f.Add("notify error", j.NotifyError)
	if j.ExitCode != nil {
		f.Add("exit code", strconv.Itoa(*j.ExitCode))
	}
	f.Add("error", strings.TrimSpace(j.ErrorType+" "+j.ErrorMessage))
	for _, at := range []struct {
		name string
		time *time.Time
	}{{"created", j.CreatedAt}, {"started", j.StartedAt}, {"finished", j.FinishedAt}, {"notified", j.NotifiedAt}} {
		if at.time != nil {
			f.Add(at.name, render.Time(*at.time)+" ("+render.Ago(at.time)+" ago)")
		}
	}
	if err := f.Flush(); err != nil || len(j.Past) == 0 {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout())
	return attemptTable(cmd.OutOrStdout(), j.Past)
}

// attemptTable lists the attempts that have ended.
func attemptTable(w io.Writer, past []attempt) error {
	t := render.NewTable(w, "ATTEMPT", "NODES", "RAN", "ENDED", "EXIT", "CAUSE", "FAILED ON", "REASON")
	for _, a := range past {
		ran, ended, exit := "", "", ""
		if a.StartedAt != nil && a.FinishedAt != nil {
			ran = render.Duration(a.FinishedAt.Sub(*a.StartedAt))
		}
		if a.FinishedAt != nil {
			ended = render.Ago(a.FinishedAt) + " ago"
		}
		if a.ExitCode != nil {
			exit = strconv.Itoa(*a.ExitCode)
		}
		t.Row(strconv.Itoa(a.Attempt), strings.Join(a.Nodes, ","), ran, ended, exit, a.ErrorType, a.FailedNode, a.Reason)
	}
	return t.Flush()
}
