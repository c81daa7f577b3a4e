package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// logLine is one line that a task printed.
type logLine struct {
	Level     string    `json:"level"`
	Message   string    `json:"message"`
	Timestamp time.Time `json:"timestamp"`
	Rank      int       `json:"rank"`
	Stream    string    `json:"stream"`
	Attempt   int       `json:"attempt"`
}

type logOptions struct {
	follow, times bool
	tail          int
	rank, attempt int
	since         string
	output        string
}

func newLogs() *cobra.Command {
	o := logOptions{}
	cmd := rest.Command(&cobra.Command{
		Use:   "logs JOB",
		Short: "Show what a job printed",
		Long: `Shows what a job printed, on all its nodes unless --rank is given. With -f it waits for more until the job ends. If the
connection breaks, it resumes without gap or repeat.`,
		Example: `  mind logs job_1a2b
  mind logs -f --tail 20 job_1a2b
  mind logs --rank 3 --since 10m job_1a2b`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: CompleteJobs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		o.output = output
		for flag, n := range map[string]int{"tail": o.tail, "rank": o.rank, "attempt": o.attempt} {
			if cmd.Flags().Changed(flag) && n < 0 {
				return exit.Misuse(fmt.Errorf("--%s %d: it must not be negative", flag, n))
			}
		}
		return interrupted(printLogs(ctx, c, cmd.OutOrStdout(), args[0], o), args[0])
	})
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "wait for more until the job ends")
	f.IntVar(&o.tail, "tail", -1, "only the last lines (default: all)")
	f.IntVar(&o.rank, "rank", -1, "only this rank (default: all)")
	f.IntVar(&o.attempt, "attempt", 0, "this attempt (default: the newest)")
	f.StringVar(&o.since, "since", "", "only newer lines: 10m, or a time such as 2026-01-02T15:04:05Z")
	rest.HideDefaults(f, "tail", "rank")
	f.BoolVarP(&o.times, "timestamps", "t", false, "print the time before each line")
	return cmd
}

// printLogs writes the log of a job. With follow it returns when the job has ended.
func printLogs(ctx context.Context, c *rest.Client, w io.Writer, id string, o logOptions) error {
	var j Job
	if _, err := c.Get(ctx, "/jobs/"+url.PathEscape(id), nil, &j); err != nil {
		return err
	}
	query := url.Values{"follow": {strconv.FormatBool(o.follow)}}
	if o.tail >= 0 {
		query.Set("tail", strconv.Itoa(o.tail))
	}
	if o.rank >= 0 {
		query.Set("rank", strconv.Itoa(o.rank))
	}
	if o.attempt > 0 {
		query.Set("attempt", strconv.Itoa(o.attempt))
	}
	if o.since != "" {
		query.Set("since", o.since)
	}
	ranks := o.rank < 0 && j.Resources.Nodes > 1
	return c.Stream(ctx, "/jobs/"+url.PathEscape(id)+"/logs", query, func(e rest.Event) error {
		if e.Name != "log" {
			return nil
		}
		if o.output != "table" {
			return render.Line(w, o.output, e.Data)
		}
		var l logLine
		if err := json.Unmarshal([]byte(e.Data), &l); err != nil {
			return fmt.Errorf("cannot read a line of the log: %w", err)
		}
		_, err := io.WriteString(w, l.text(o.times, ranks))
		return err
	})
}

func (l *logLine) text(times, ranks bool) string {
	var b strings.Builder
	if times {
		b.WriteString(l.Timestamp.Format("2006-01-02T15:04:05.000Z07:00") + " ")
	}
	if ranks {
		fmt.Fprintf(&b, "[%d] ", l.Rank)
	}
	b.WriteString(l.Message + "\n")
	return b.String()
}

func newMetrics() *cobra.Command {
	var follow bool
	var drawn plotOptions
	cmd := rest.Command(&cobra.Command{
		Use:   "metrics JOB [NAME...]",
		Short: "Show the metrics that a job reports",
		Long: `Shows the newest value of each metric that a job reports. With --plot it draws the history of those that are named, or of
"loss": a line for each attempt, over the steps of the training. GPUs have histories, too, such as gpu0.utilization_ratio.`,
		Example: `  mind metrics job_1a2b         # the newest of each
  mind metrics -f job_1a2b      # every line as it comes
  mind metrics --plot job_1a2b  # the loss of all attempts
  mind metrics --plot -f job_1a2b loss gpu0.utilization_ratio`,
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: CompleteJobs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		if drawn.plot {
			drawn.follow, drawn.output, drawn.names = follow, output, args[1:]
			return interrupted(plotMetrics(ctx, c, cmd.OutOrStdout(), args[0], drawn), args[0])
		}
		if len(args) > 1 || drawn.log || drawn.byTime || cmd.Flags().Changed("rank") {
			return exit.Misuse(errors.New("names, --log, --time and --rank are for --plot"))
		}
		path, w := "/jobs/"+url.PathEscape(args[0])+"/metrics", cmd.OutOrStdout()
		if !follow {
			var got struct {
				Metrics map[string]any `json:"metrics"`
			}
			data, err := c.Get(ctx, path, nil, &got)
			if err != nil {
				return err
			}
			if output != "table" {
				return render.Data(w, output, data)
			}
			t := render.NewTable(w, "METRIC", "VALUE")
			for _, name := range sorted(got.Metrics) {
				t.Row(name, figure(got.Metrics[name]))
			}
			return t.Flush()
		}
		line := metricsLine{}
		return interrupted(c.Stream(ctx, path+"/stream", nil, func(e rest.Event) error {
			if e.Name != "metrics" {
				return nil
			}
			if output != "table" {
				return render.Line(w, output, e.Data)
			}
			_, err := io.WriteString(w, line.text(e.Data)+"\n")
			return err
		}), args[0])
	})
	f := cmd.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "print each line of metrics when it arrives, until the job ends; with --plot: draw again")
	f.BoolVar(&drawn.plot, "plot", false, "draw the history of the metrics that are named (default: loss)")
	f.BoolVar(&drawn.log, "log", false, "with --plot: draw values on a logarithmic scale")
	f.BoolVar(&drawn.byTime, "time", false, "with --plot: draw over time, not over steps")
	f.IntVar(&drawn.rank, "rank", 0, "with --plot: draw this rank; -1: all")
	return cmd
}

// metricsLine formats lines of metrics in columns, one for each metric. It has the width of each column so far.
type metricsLine map[string]int

// text formats a line of metrics with the step first.
func (l metricsLine) text(data string) string {
	var fields map[string]any
	if json.Unmarshal([]byte(data), &fields) != nil {
		return render.Printable(data)
	}
	if line, ok := fields["line"].(string); ok && len(fields) == 1 {
		return render.Printable(line) // not metrics: the program wrote other text to the file
	}
	var b strings.Builder
	for _, name := range sorted(fields) {
		word := render.Printable(name + " " + figure(fields[name]))
		l[name] = max(l[name], utf8.RuneCountInString(word))
		fmt.Fprintf(&b, "%-*s  ", l[name], word)
	}
	return strings.TrimRight(b.String(), " ")
}

func sorted(fields map[string]any) []string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	rank := map[string]int{"step": -2, "loss": -1}
	sort.Slice(names, func(i, j int) bool {
		if a, b := rank[names[i]], rank[names[j]]; a != b {
			return a < b
		}
		return names[i] < names[j]
	})
	return names
}

// figure formats a value as JSON, but rounds numbers: whole and large ones to the unit, others to six digits.
func figure(v any) string {
	if f, ok := v.(float64); ok {
		if size := math.Abs(f); size < 1e15 && (f == math.Trunc(f) || size >= 1e6) {
			return strconv.FormatFloat(f, 'f', 0, 64)
		}
		return strconv.FormatFloat(f, 'g', 6, 64)
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v) // impossible: the value came from JSON
	}
	return strings.TrimSuffix(b.String(), "\n")
}
