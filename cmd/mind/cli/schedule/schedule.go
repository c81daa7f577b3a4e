// Package schedule has the commands for schedules: jobs that are submitted again and again.
//
// The flags that say what a job needs are those of submit, and mean the same.
package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/jobs"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// schedule is a schedule as the gateway returns it.
type schedule struct {
	Name     string      `json:"name"`
	User     string      `json:"user_id"`
	Cron     string      `json:"cron"`
	Timezone string      `json:"timezone"`
	Overlap  string      `json:"overlap"`
	Within   int         `json:"start_within_seconds"`
	Paused   bool        `json:"paused"`
	Next     *time.Time  `json:"next_run_at"`
	Upcoming []time.Time `json:"upcoming"`
	LastRun  *struct {
		Outcome string    `json:"outcome"`
		Reason  string    `json:"reason"`
		At      time.Time `json:"at"`
	} `json:"last_run"`
	LastJob string `json:"last_job_id"`
	Started int64  `json:"started"`
	Skipped int64  `json:"skipped"`
	Missed  int64  `json:"missed"`
	Refused int64  `json:"refused"`
}

var scheduleVerbs = rest.Verbs{newSchedulePut, newScheduleShow, newScheduleDelete, newScheduleRun}

// Command returns the command.
func Command() *cobra.Command {
	cmd := rest.Command(&cobra.Command{
		Use:     "schedule",
		Aliases: []string{"schedules"},
		Short:   "Submit jobs again and again, and list what is scheduled",
		Long: `Lists the schedules of the tenant. A schedule submits a job at the times of a cron expression, in the name of the user
who put the schedule.

It runs once for each of its times, whichever coordinator leads. While the job of an earlier run is not over, a run is
skipped, unless --overlap says otherwise. Times that pass while no coordinator leads are made up for by one run.

The jobs of a schedule: mind jobs --label schedule=NAME`,
		Example: `  mind schedule
  mind schedule put nightly --cron "30 2 * * 1-5" --tz Europe/Berlin --gpus 8 -- python evaluate.py
  mind schedule show nightly
  mind schedule run nightly
  mind schedule pause nightly
  mind schedule delete nightly`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		var got struct {
			Schedules []schedule `json:"schedules"`
		}
		data, err := c.Get(ctx, "/schedules", nil, &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		t := render.NewTable(cmd.OutOrStdout(), "NAME", "CRON", "ZONE", "NEXT", "LAST", "LAST JOB", "STARTED", "OTHERS")
		for i := range got.Schedules {
			s := &got.Schedules[i]
			last := ""
			if s.LastRun != nil {
				last = s.LastRun.Outcome
			}
			t.Row(s.Name, s.Cron, s.Timezone, s.next(), last, s.LastJob, fmt.Sprint(s.Started), s.others())
		}
		return t.Flush()
	})
	cmd.AddCommand(newScheduleControl("pause", "Submit nothing more of a schedule until it is resumed"),
		newScheduleControl("resume", "Go on with a paused schedule, at its next time"))
	cmd.AddCommand(scheduleVerbs.Make()...)
	return cmd
}

// next formats when the schedule is due next, in its time zone.
func (s *schedule) next() string {
	if s.Paused || s.Next == nil {
		return "paused"
	}
	return s.Next.In(s.zone()).Format("2006-01-02 15:04 MST")
}

// zone returns the time zone of the schedule, or UTC if this machine does not know it.
func (s *schedule) zone() *time.Location {
	if zone, err := time.LoadLocation(s.Timezone); err == nil {
		return zone
	}
	return time.UTC
}

// others formats the numbers of runs that submitted no job.
func (s *schedule) others() string {
	var out []string
	for _, one := range []struct {
		n    int64
		what string
	}{{s.Skipped, "skipped"}, {s.Missed, "missed"}, {s.Refused, "refused"}} {
		if one.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	return strings.Join(out, ", ")
}

func newSchedulePut() *cobra.Command {
	var (
		cron, zone, overlap string
		within              time.Duration
		paused              bool
	)
	o := &jobs.SubmitOptions{}
	cmd := rest.Command(&cobra.Command{
		Use:   "put NAME --cron EXPRESSION [flags] -- COMMAND ARGS...",
		Short: "Make a schedule, or replace one",
		Long: `Submits a command, or the job described in a file, at the times of a cron expression. The flags of the job are those of
mind submit. The job finds the time for which it was due in MIND_SCHEDULED_AT, and the name of the schedule in MIND_SCHEDULE.

The expression has five fields: minute, hour, day of the month, month, day of the week. It may also be @hourly, @daily,
@weekly, @monthly or @yearly. A time of day that is left out when clocks are turned forward comes an hour later; one that
comes twice when they are turned back counts once.

A job that would be refused now is refused with the schedule. An earlier schedule of the same name is replaced; its runs are
remembered.`,
		Example: `  mind schedule put nightly --cron "30 2 * * 1-5" --tz Europe/Berlin --gpus 8 -- python evaluate.py
  mind schedule put sync --cron "*/15 * * * *" --overlap skip --start-within 5m -- ./sync.sh
  mind schedule put retrain --cron @weekly -f job.yaml`,
		Args: cobra.MinimumNArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		if cron == "" {
			return exit.Misuse(errors.New(`give when it runs, for example --cron "30 2 * * *" for each night at half past two`))
		}
		job, err := o.Request(cmd.Flags(), args[1:], os.Getwd)
		if err != nil {
			return exit.Misuse(err)
		}
		o.WarnOfVenv(cmd.ErrOrStderr(), args[1:])
		if err := o.SendUpload(ctx, c, cmd.ErrOrStderr(), job); err != nil {
			return err
		}
		body := map[string]any{"cron": cron, "timezone": zone, "overlap": overlap, "start_within_seconds": int64(within / time.Second), "paused": paused, "job": job}
		return printSchedule(ctx, cmd, c, output, http.MethodPut, schedulePath(args[0]), body)
	})
	f := cmd.Flags()
	o.Bind(cmd)
	for _, name := range []string{"wait", "follow", "idempotency-key", "begin"} { // flags about a single job
		_ = f.MarkHidden(name)
	}
	f.StringVar(&cron, "cron", "", `when it runs, such as "30 2 * * 1-5" or @daily`)
	f.StringVar(&zone, "tz", "UTC", "time zone of --cron, such as Europe/Berlin")
	f.StringVar(&overlap, "overlap", "skip", "while the job of an earlier run is not over: skip the run, allow another job beside it, or replace the job")
	f.DurationVar(&within, "start-within", 0, "leave out a run that comes later than this, such as 10m (default: run it however late)")
	f.BoolVar(&paused, "paused", false, "submit nothing until mind schedule resume")
	return cmd
}

func newScheduleShow() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:     "show NAME",
		Short:   "Show a schedule: when it runs, and the outcome of its last run",
		Example: `  mind schedule show nightly`,
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		return printSchedule(ctx, cmd, c, output, http.MethodGet, schedulePath(args[0]), nil)
	})
}

func newScheduleControl(verb, short string) *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:     verb + " NAME",
		Short:   short,
		Example: "  mind schedule " + verb + " nightly",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		return printSchedule(ctx, cmd, c, output, http.MethodPost, schedulePath(args[0])+"/"+verb, map[string]any{})
	})
}

func newScheduleRun() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "run NAME",
		Short: "Submit the job of a schedule now and print its id",
		Long: `Submits the job of a schedule now, also of a paused one, and prints the id of the job. When the schedule is due does not
change. With --overlap skip it is refused while the job of an earlier run is not over.`,
		Example: `  mind schedule run nightly`,
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var made struct {
			ID string `json:"job_id"`
		}
		data, err := c.Call(ctx, http.MethodPost, schedulePath(args[0])+"/run", nil, map[string]any{}, rest.NewKey(), &made)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), made.ID)
		return err
	})
}

func newScheduleDelete() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:     "delete NAME",
		Short:   "Delete a schedule; its jobs go on",
		Example: `  mind schedule delete nightly`,
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		data, err := c.Call(ctx, http.MethodDelete, schedulePath(args[0]), nil, nil, rest.NewKey(), nil)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is gone\n", args[0])
		return nil
	})
}

func schedulePath(name string) string { return "/schedules/" + url.PathEscape(name) }

// printSchedule makes a call, and prints the schedule in the answer.
func printSchedule(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, method, path string, body map[string]any) error {
	var (
		got  schedule
		data json.RawMessage
		err  error
	)
	if method == http.MethodGet {
		data, err = c.Get(ctx, path, nil, &got)
	} else {
		data, err = c.Call(ctx, method, path, nil, body, rest.NewKey(), &got)
	}
	if err != nil {
		return err
	}
	if output != "table" {
		return render.Data(cmd.OutOrStdout(), output, data)
	}
	return got.print(cmd.OutOrStdout())
}

func (s *schedule) print(w io.Writer) error {
	zone := s.zone()
	show := func(t time.Time) string { return t.In(zone).Format("Mon 2006-01-02 15:04 MST") }
	fmt.Fprintf(w, "schedule   %s, put by %s\n", s.Name, s.User)
	fmt.Fprintf(w, "runs       %s (%s), overlap: %s\n", s.Cron, s.Timezone, s.Overlap)
	if s.Within > 0 {
		fmt.Fprintf(w, "at most    %s late\n", time.Duration(s.Within)*time.Second)
	}
	if s.Paused || s.Next == nil {
		fmt.Fprintf(w, "next       paused: mind schedule resume %s\n", s.Name)
	} else {
		next := []string{show(*s.Next)}
		for _, t := range s.Upcoming {
			next = append(next, show(t))
		}
		fmt.Fprintf(w, "next       %s\n", strings.Join(next, "\n           "))
	}
	if s.LastRun != nil {
		fmt.Fprintf(w, "last run   %s, %s\n", s.LastRun.Outcome, show(s.LastRun.At))
		if s.LastRun.Reason != "" {
			fmt.Fprintf(w, "because    %s\n", s.LastRun.Reason)
		}
	}
	if s.LastJob != "" {
		fmt.Fprintf(w, "last job   %s\n", s.LastJob)
	}
	counts := fmt.Sprintf("%d started", s.Started)
	if others := s.others(); others != "" {
		counts += ", " + others
	}
	_, err := fmt.Fprintf(w, "so far     %s\n", counts)
	return err
}
