package cores

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

func newExecutions() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List executions, the newest first",
		Example: `  mind execution list
  mind execution list --core nightly --status waiting`,
		Args: cobra.NoArgs,
	}
	cmd = lister(cmd, target.CorePath+"/executions", "executions", func(cmd *cobra.Command) url.Values {
		return filters(cmd, map[string]string{"core": "core_id", "status": "status"})
	}, []string{"EXECUTION", "CORE", "FLOW", "STATUS", "AGE", "BY", "WAITS FOR"}, func(t *render.Table, e *execution) {
		t.Row(e.ID, cmp.Or(e.Slug, e.Core), e.Flow, e.Status, render.Ago(e.CreatedAt), e.User, e.brief())
	})
	cmd.Flags().String("core", "", "only those of this Core: its slug or its id")
	cmd.Flags().String("status", "", "only running, waiting, paused, completed, failed or canceled ones")
	_ = cmd.RegisterFlagCompletionFunc("core", completeCore)
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{"running", "waiting", "paused", "completed", "failed", "canceled"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// brief says in few words what an execution waits for, or how it failed.
func (e *execution) brief() string {
	if e.Error != nil {
		return e.Error.String()
	}
	var parts []string
	for i := range e.WaitingFor {
		a := &e.WaitingFor[i]
		parts = append(parts, strings.TrimSpace(a.Step+": "+a.Kind+" "+a.ID))
	}
	return strings.Join(parts, ", ")
}

func newExecution() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "show EXECUTION",
		Short: "Show an execution: its steps, and what it waits for",
		Long: `Shows an execution: its newest 16 steps, what it waits for, since when and until when, and the command that concerns it. mind core events
lists all that has happened.`,
		Example: `  mind execution show exec_1k0g00
  mind execution show exec_1k0g00 -o json`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeExecutions,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var got execution
		data, err := c.Get(ctx, executionPath(args[0]), nil, &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		w := cmd.OutOrStdout()
		return printExecution(ctx, w, newWaits(c), &got, render.Width(w))
	})
}

// shownValue is how much of a value is shown beside other facts.
const shownValue = 200

// printExecution writes an execution within a width in columns; 0: any width.
func printExecution(ctx context.Context, w io.Writer, waits *waits, e *execution, width int) error {
	f := render.NewFacts(w).Fit(width)
	f.Add("execution", e.ID)
	f.Add("core", fmt.Sprintf("%s, version %d", cmp.Or(e.Slug, e.Core), e.Version))
	f.Add("flow", e.Flow)
	f.Add("status", e.Status)
	if e.Error != nil {
		f.Add("error", strings.TrimLeft(strings.TrimPrefix(e.why(), " at the "), ": "))
	}
	f.Add("input", clipped(e.Input, shownValue))
	f.Add("output", clipped(e.Output, shownValue))
	f.Add("called by", e.Parent)
	f.Add("by", strings.TrimSpace(e.User+" ("+e.Trigger+")"))
	if e.Retries > 0 {
		f.Add("retries", strconv.Itoa(e.Retries))
	}
	if e.CreatedAt != nil {
		f.Add("created", ago(e.CreatedAt))
	}
	if e.FinishedAt != nil {
		f.Add("over", ago(e.FinishedAt))
	}
	if err := f.Flush(); err != nil {
		return err
	}
	if len(e.Steps) > 0 {
		fmt.Fprintln(w)
		t := render.NewTable(w, "STEP", "KIND", "STATUS", "TRY", "TOOK", "ERROR").Fit(width, "TRY", "KIND")
		for i := range e.Steps {
			s := &e.Steps[i]
			why := ""
			if s.Error != nil {
				why = s.Error.String()
			}
			t.Row(strings.Repeat("  ", strings.Count(s.Step, "/"))+s.Step, s.Kind, s.Status, strconv.Itoa(max(s.Attempt, 1)), s.took(), why)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(e.WaitingFor) > 0 && !e.over() {
		fmt.Fprintln(w)
		for i := range e.WaitingFor {
			fmt.Fprintln(w, render.Printable(waits.say(ctx, e, &e.WaitingFor[i])))
		}
	}
	return nil
}

// took is how long a step took, or has taken so far.
func (s *step) took() string {
	if s.StartedAt == nil {
		return ""
	}
	end := time.Now()
	if s.EndedAt != nil {
		end = *s.EndedAt
	}
	return render.Duration(end.Sub(*s.StartedAt))
}

// clipped is a value as JSON on one line, at most so many characters of it.
func clipped(raw json.RawMessage, most int) string {
	if !given(raw) {
		return ""
	}
	if runes := []rune(string(raw)); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return string(raw)
}
