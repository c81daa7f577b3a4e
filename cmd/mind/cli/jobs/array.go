package jobs

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// array counts the elements of a job array.
type array struct {
	Start       int `json:"start"`
	End         int `json:"end"`
	MaxParallel int `json:"max_parallel"`
	Waiting     int `json:"waiting"`
	Running     int `json:"running"`
	Succeeded   int `json:"succeeded"`
	Failed      int `json:"failed"`
	Canceled    int `json:"canceled"`
	Paused      int `json:"paused"`
}

func (a *array) over() int { return a.Succeeded + a.Failed + a.Canceled }

func (a *array) String() string {
	text := fmt.Sprintf("%d waiting, %d running, %d succeeded, %d failed, %d canceled", a.Waiting, a.Running, a.Succeeded, a.Failed, a.Canceled)
	if a.Paused > 0 {
		text += fmt.Sprintf(", %d paused", a.Paused)
	}
	return text
}

// addTo adds the facts of an array.
func (a *array) addTo(f *render.Facts) {
	numbers := fmt.Sprintf("%d-%d", a.Start, a.End)
	if a.MaxParallel > 0 {
		numbers += fmt.Sprintf(", %d at once", a.MaxParallel)
	}
	f.Add("array", numbers)
	f.Add("elements", a.String())
}

// followArray waits for the end of an array, and prints the counts of its elements when they change.
func followArray(ctx context.Context, c *rest.Client, w io.Writer, id string) error {
	last := ""
	j, _, err := rest.Poll(ctx, c, "/jobs/"+url.PathEscape(id), func(j *Job) (bool, error) {
		if j.Array != nil && j.Array.String() != last {
			last = j.Array.String()
			fmt.Fprintln(w, j.ID+": "+last)
		}
		return j.Over(), nil
	})
	if err != nil {
		return err
	}
	return j.Exit()
}

// element is an element of an array.
type element struct {
	ID         string     `json:"job_id"`
	Status     string     `json:"status"`
	Attempt    int        `json:"attempt"`
	ExitCode   *int       `json:"exit_code"`
	ErrorType  string     `json:"error_type"`
	Nodes      []string   `json:"nodes"`
	StartedAt  *time.Time `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at"`
}

// showTasks lists the elements of an array.
func showTasks(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id string, status []string, limit int) error {
	if err := rest.Positive("limit", limit); err != nil {
		return err
	}
	query := url.Values{}
	for _, v := range status {
		query.Add("status", strings.ToUpper(v))
	}
	all, raw, total, err := rest.List[element](ctx, c, "/jobs/"+url.PathEscape(id)+"/tasks", "tasks", query, limit)
	if err != nil {
		return err
	}
	if output != "table" {
		return render.Value(cmd.OutOrStdout(), output, total.Of("tasks", raw))
	}
	t := render.NewTable(cmd.OutOrStdout(), "JOB", "STATUS", "ATTEMPT", "NODES", "RAN", "EXIT", "CAUSE")
	for i := range all {
		e := &all[i]
		attempt, ran, code := "", "", ""
		if e.Attempt > 0 {
			attempt = strconv.Itoa(e.Attempt)
		}
		if e.StartedAt != nil && e.FinishedAt != nil {
			ran = render.Duration(e.FinishedAt.Sub(*e.StartedAt))
		}
		if e.ExitCode != nil {
			code = strconv.Itoa(*e.ExitCode)
		}
		t.Row(e.ID, e.Status, attempt, strings.Join(e.Nodes, ","), ran, code, e.ErrorType)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	total.More(cmd, len(all))
	return nil
}
