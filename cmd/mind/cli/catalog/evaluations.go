package catalog

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/jobs"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// evaluation holds the fields that the commands use.
type evaluation struct {
	ID         string `json:"evaluation_id"`
	Name       string `json:"name"`
	User       string `json:"user_id"`
	Status     string `json:"status"`
	Workload   string `json:"workload_job_id"`
	Job        string `json:"job_id"`
	Model      string `json:"model_uri"`
	Checkpoint string `json:"checkpoint_id"`
	Benchmarks []struct {
		Name    string      `json:"name"`
		Samples rest.Number `json:"num_samples"`
		Dataset string      `json:"dataset"`
	} `json:"benchmarks"`
	Results []struct {
		Name       string             `json:"name"`
		Metrics    map[string]float64 `json:"metrics"`
		Samples    rest.Number        `json:"num_samples"`
		Error      string             `json:"error"`
		Attempt    int                `json:"attempt"`
		ReportedAt *time.Time         `json:"reported_at"`
	} `json:"results"`
	ErrorType    string     `json:"error_type"`
	ErrorMessage string     `json:"error_message"`
	Reason       string     `json:"reason"`
	CreatedAt    *time.Time `json:"created_at"`
	StartedAt    *time.Time `json:"started_at"`
	FinishedAt   *time.Time `json:"finished_at"`
}

// workload returns the job of the evaluation, as far as the answer describes it.
func (e *evaluation) workload() *jobs.Job {
	return &jobs.Job{ID: e.Workload, Name: e.Name, Status: e.Status, ErrorType: e.ErrorType, ErrorMessage: e.ErrorMessage, Reason: e.Reason, FinishedAt: e.FinishedAt}
}

func (e *evaluation) scored() string {
	switch {
	case e.Checkpoint != "":
		return e.Job + " at " + e.Checkpoint
	case e.Model != "":
		return e.Model
	}
	return e.Job
}

// lacking returns the benchmarks without results.
func (e *evaluation) lacking() []string {
	var out []string
	for _, b := range e.Benchmarks {
		has := false
		for _, r := range e.Results {
			has = has || r.Name == b.Name && len(r.Metrics) > 0
		}
		if !has {
			out = append(out, b.Name)
		}
	}
	return out
}

// rounded formats a number for people.
func rounded(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// figures formats metrics in the order of their names.
func figures(metrics map[string]float64) string {
	var names, out []string
	for name := range metrics {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out = append(out, name+"="+rounded(metrics[name]))
	}
	return strings.Join(out, " ")
}

func (e *evaluation) resultTable(w io.Writer) error {
	t := render.NewTable(w, "BENCHMARK", "SAMPLES", "ATTEMPT", "METRICS", "ERROR")
	reported := map[string]bool{}
	for _, r := range e.Results {
		reported[r.Name] = true
		t.Row(r.Name, strconv.FormatInt(int64(r.Samples), 10), strconv.Itoa(r.Attempt), figures(r.Metrics), r.Error)
	}
	for _, b := range e.Benchmarks {
		if !reported[b.Name] {
			t.Row(b.Name, "", "", "", "no result")
		}
	}
	return t.Flush()
}

func newEvaluations() *cobra.Command {
	var status []string
	var job string
	var limit int
	cmd := rest.Command(&cobra.Command{
		Use:   "evaluations",
		Short: "List or compare evaluations, newest first",
		Example: `  mind evaluations
  mind evaluations --job job_1a2b
  mind evaluations compare eval_1a2c eval_1a2d`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		if err := rest.Positive("limit", limit); err != nil {
			return err
		}
		query := url.Values{}
		for _, v := range status {
			query.Add("status", strings.ToUpper(v))
		}
		if job != "" {
			query.Set("job_id", job)
		}
		all, raw, total, err := rest.List[evaluation](ctx, c, "/evaluations", "evaluations", query, limit)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Value(cmd.OutOrStdout(), output, total.Of("evaluations", raw))
		}
		t := render.NewTable(cmd.OutOrStdout(), "EVALUATION", "SCORES", "STATUS", "RESULTS", "AGE", "REASON")
		for i := range all {
			e := &all[i]
			have := len(e.Benchmarks) - len(e.lacking())
			t.Row(e.ID, e.scored(), e.Status, fmt.Sprintf("%d of %d", have, len(e.Benchmarks)), render.Ago(e.CreatedAt), e.workload().Why())
		}
		if err := t.Flush(); err != nil {
			return err
		}
		total.More(cmd, len(all))
		return nil
	})
	f := cmd.Flags()
	f.StringArrayVar(&status, "status", nil, "only evaluations with this status, such as EVALUATING or COMPLETED; repeatable")
	f.StringVar(&job, "job", "", "only evaluations of this job's model")
	f.IntVar(&limit, "limit", 50, "how many")
	cmd.AddCommand(newEvaluationsCompare())
	return cmd
}

func newEvaluation() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "evaluation EVALUATION",
		Short: "Show one evaluation and its results",
		Example: `  mind evaluation eval_1a2c
  mind evaluation eval_1a2c -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEvaluations,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var e evaluation
		data, err := c.Get(ctx, "/evaluations/"+url.PathEscape(args[0]), nil, &e)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		f := render.NewFacts(cmd.OutOrStdout())
		f.Add("evaluation", e.ID)
		f.Add("name", e.Name)
		f.Add("status", e.Status)
		f.Add("reason", e.Reason)
		f.Add("scores", e.scored())
		f.Add("workload", e.Workload)
		f.Add("user", e.User)
		f.Add("error", strings.TrimSpace(e.ErrorType+" "+e.ErrorMessage))
		for _, at := range []struct {
			name string
			time *time.Time
		}{{"created", e.CreatedAt}, {"started", e.StartedAt}, {"finished", e.FinishedAt}} {
			if at.time != nil {
				f.Add(at.name, render.Time(*at.time)+" ("+render.Ago(at.time)+" ago)")
			}
		}
		if err := f.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout())
		return e.resultTable(cmd.OutOrStdout())
	})
}

func newEvaluationsCompare() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "compare EVALUATION EVALUATION...",
		Short: "Compare the results of 2 to 20 evaluations",
		Long: `Shows the results of 2 to 20 evaluations side by side: a row for each metric of each benchmark, with the difference from the
first evaluation that has the metric in brackets: with "noise" where it is less than 1.96 times its standard error, with an
asterisk where it is more, and with neither where the programs reported no standard errors (METRIC_stderr). Whether more is better depends on the metric. Evaluations with different
numbers of samples are compared, too.`,
		Example:           `  mind evaluations compare eval_1a2c eval_1a2d`,
		Args:              cobra.RangeArgs(2, 20),
		ValidArgsFunction: completeEvaluations,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var got struct {
			Evaluations []evaluation `json:"evaluations"`
			Rows        []struct {
				Benchmark string `json:"benchmark"`
				Metric    string `json:"metric"`
				Values    []struct {
					Value *float64 `json:"value"`
					Delta *float64 `json:"delta"`
					// nil: the standard errors are not known.
					BeyondNoise *bool `json:"beyond_noise"`
				} `json:"values"`
			} `json:"rows"`
		}
		data, err := c.Get(ctx, "/evaluations/compare", url.Values{"ids": {strings.Join(args, ",")}}, &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		header := []string{"BENCHMARK", "METRIC"}
		for _, e := range got.Evaluations {
			header = append(header, e.ID)
		}
		t := render.NewTable(cmd.OutOrStdout(), header...)
		for _, row := range got.Rows {
			cells := []string{row.Benchmark, row.Metric}
			for _, v := range row.Values {
				switch {
				case v.Value == nil:
					cells = append(cells, "-")
				case v.Delta == nil:
					cells = append(cells, rounded(*v.Value))
				default:
					chance := ""
					if v.BeyondNoise != nil {
						chance = map[bool]string{true: "*", false: ", noise"}[*v.BeyondNoise]
					}
					cells = append(cells, fmt.Sprintf("%s (%+.6g%s)", rounded(*v.Value), *v.Delta, chance))
				}
			}
			t.Row(cells...)
		}
		return t.Flush()
	})
}

// completeEvaluations completes ids of the newest evaluations.
func completeEvaluations(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return rest.CompleteNames(cmd, nil, "/evaluations", "evaluations", "evaluation_id", "status")
}
