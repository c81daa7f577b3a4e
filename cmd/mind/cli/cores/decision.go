package cores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

func newDecisions() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the questions that wait for an answer, the newest first",
		Example: `  mind decision list
  mind decision list --status all --core nightly`,
		Args: cobra.NoArgs,
	}
	cmd = lister(cmd, target.CorePath+"/checkpoints", "checkpoints", func(cmd *cobra.Command) url.Values {
		return filters(cmd, map[string]string{"core": "core_id", "status": "status"})
	}, []string{"DECISION", "CORE", "OF", "STATUS", "PRIORITY", "ASKS", "EXPIRES", "ANSWERS", "QUESTION"}, func(t *render.Table, d *decision) {
		expires := ""
		if d.ExpiresAt != nil && d.Status == "pending" {
			expires = moment(*d.ExpiresAt)
		}
		asks := d.Assignee
		if asks == "" {
			asks = "anybody"
		}
		t.Row(d.ID, cmp.Or(d.Slug, d.Core), cmp.Or(d.Execution, d.Job), d.Status, d.Priority, asks, expires, d.answers(), d.Prompt)
	})
	cmd.Flags().String("core", "", "only those of this Core: its slug or its id")
	cmd.Flags().String("status", "", "pending (default), resolved, expired, cancelled or all")
	_ = cmd.RegisterFlagCompletionFunc("core", completeCore)
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{"pending", "resolved", "expired", "cancelled", "all"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// answers are the answers that a decision allows, or the one that it got.
func (d *decision) answers() string {
	switch {
	case d.Resolution != "":
		return d.Resolution
	case given(d.Data):
		return clipped(d.Data, shownValue)
	case given(d.Schema):
		return "JSON"
	case len(d.Options) == 0:
		return "text"
	}
	var ids []string
	for _, o := range d.Options {
		ids = append(ids, o.ID)
	}
	return strings.Join(ids, "|")
}

func newDecision() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "show DECISION",
		Short: "Show a decision: the question, its context, the votes",
		Example: `  mind decision show dec_1k0g00
  mind decision show dec_1k0g00 -o json`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeDecisions,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var got decision
		data, err := c.Get(ctx, decisionPath(args[0]), nil, &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		return printDecision(cmd.OutOrStdout(), &got)
	})
}

func printDecision(w io.Writer, d *decision) error {
	f := render.NewFacts(w).Fit(render.Width(w))
	f.Add("decision", d.ID)
	f.Add("question", d.Prompt)
	f.Add("status", d.Status)
	f.Add("type", d.Type+", "+d.Priority)
	for _, o := range d.Options {
		label := ""
		if o.Label != "" {
			label = ": " + o.Label
		}
		if o.Cancels {
			label += " (cancels the job)"
		}
		f.Add("option", o.ID+label)
	}
	f.Add("schema", clipped(d.Schema, shownValue))
	f.Add("context", clipped(d.Context, shownValue))
	f.Add("subject", d.Subject)
	assignee := d.Assignee
	if assignee == "" {
		assignee = "anybody who may answer checkpoints"
	}
	if d.Escalated {
		assignee += ", after nobody else answered in time"
	}
	f.Add("asks", assignee)
	if d.Quorum.Needed > 1 {
		f.Add("quorum", fmt.Sprintf("%d of %d have to agree", d.Quorum.Needed, d.Quorum.Of))
	}
	for _, v := range d.Votes {
		comment := ""
		if v.Comment != "" {
			comment = ": " + v.Comment
		}
		f.Add("vote", v.User+" "+v.Resolution+comment)
	}
	if d.Job != "" {
		f.Add("job", fmt.Sprintf("%s, at the gate %s of attempt %d", d.Job, d.Step, d.Attempt))
	} else {
		f.Add("core", cmp.Or(d.Slug, d.Core))
		f.Add("execution", d.Execution+", step "+d.Step+" of "+d.Flow)
	}
	if d.CreatedAt != nil {
		f.Add("asked", ago(d.CreatedAt))
	}
	if d.NotifiedAt != nil {
		f.Add("notified", ago(d.NotifiedAt))
	}
	f.Add("notify error", d.NotifyErr)
	switch {
	case d.Status == "resolved":
		f.Add("resolution", d.Resolution)
		f.Add("data", clipped(d.Data, shownValue))
		f.Add("resolved by", d.ResolvedBy)
	case d.Status == "pending":
		if d.ExpiresAt != nil {
			f.Add("expires", render.Time(*d.ExpiresAt)+", then: "+strings.TrimSpace(d.OnExpiry+" "+d.Target))
		}
		f.Add("answer", "`"+d.command()+"`")
	}
	return f.Flush()
}

func newResolve() *cobra.Command {
	var comment, data, subject string
	cmd := rest.Command(&cobra.Command{
		Use:   "resolve DECISION [OPTION]",
		Short: "Answer a decision",
		Long: `Answers a decision, in the name of the user of the token. The answer is the id of an option, or text if the decision has no options. A
decision with a schema takes --data instead.

A decision is answered once. If several people have to agree, each answers, and the last one that is needed resolves it. With --subject the
answer counts only if the decision is about what has this digest.`,
		Example: `  mind decision resolve dec_1k0g00 approve --comment 'looks good'
  mind decision resolve dec_1k0g00 --data '{"lr": 0.01}'`,
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: completeDecisions,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		body := map[string]any{}
		if len(args) == 2 {
			body["resolution"] = args[1]
		} else if data == "" {
			return exit.Misuse(fmt.Errorf("give the answer: an OPTION, or --data JSON for a decision with a schema: `mind decision show %s` shows which", args[0]))
		}
		for field, text := range map[string]string{"comment": comment, "subject_digest": subject} {
			if text != "" {
				body[field] = text
			}
		}
		if data != "" {
			v, err := value("--data", data, cmd.InOrStdin())
			if err != nil {
				return err
			}
			body["data"] = v
		}
		return decide(ctx, cmd, c, output, args[0], "resolve", body)
	})
	f := cmd.Flags()
	f.StringVar(&comment, "comment", "", "why")
	f.StringVar(&data, "data", "", "answer to a schema, as JSON, @FILE, or - for stdin")
	f.StringVar(&subject, "subject", "", "digest of what you have seen")
	return cmd
}

// decide sends what somebody wants of a decision, and prints how it is then.
func decide(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id, verb string, body map[string]any) error {
	var got decision
	answer, err := c.Post(ctx, decisionPath(id)+"/"+verb, body, "", &got)
	if err != nil {
		return err
	}
	if output != "table" {
		return render.Data(cmd.OutOrStdout(), output, answer)
	}
	text := got.ID + " is " + got.Status
	switch {
	case got.Status == "resolved":
		text += ": " + got.answers()
	case verb == "resolve" && got.Status == "pending":
		text += fmt.Sprintf(": %d of %d have answered, and %d have to agree", len(got.Votes), got.Quorum.Of, got.Quorum.Needed)
	case got.Status == "pending" && got.Assignee != "":
		text += ", and asks " + got.Assignee
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), render.Printable(text))
	return err
}

func newCancelDecision() *cobra.Command {
	var reason string
	cmd := rest.Command(&cobra.Command{
		Use:     "cancel DECISION",
		Short:   "Take a question back: the step that asked fails",
		Example: `  mind decision cancel dec_1k0g00 --reason 'asked about the wrong model'`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeDecisions,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		return decide(ctx, cmd, c, output, args[0], "cancel", reasoned(reason))
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func newReassign() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "reassign DECISION ASSIGNEE",
		Short: "Ask somebody else",
		Long:  `Asks somebody else: user:ID, group:ID or role:NAME, or anybody who may answer checkpoints with the assignee "".`,
		Example: `  mind decision reassign dec_1k0g00 user:ann
  mind decision reassign dec_1k0g00 ''`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: completeDecisions,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		if kind, _, ok := strings.Cut(args[1], ":"); args[1] != "" && (!ok || kind != "user" && kind != "group" && kind != "role") {
			return exit.Misuse(errors.New("write the assignee as user:ID, group:ID or role:NAME"))
		}
		return decide(ctx, cmd, c, output, args[0], "reassign", map[string]any{"assignee": args[1]})
	})
}
