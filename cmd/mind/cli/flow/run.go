package flow

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/flow/rehearse"
)

// runOptions are the flags of `mind flow run`.
type runOptions struct {
	flow, input, answers, output, cancelAfter string
	events                                    bool
}

// result is the outcome as JSON.
type result struct {
	*rehearse.Outcome
	// Events hides those of the outcome unless they are asked for.
	Events []rehearse.Event `json:"events,omitempty"`
}

func newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a flow on this machine, on recorded answers and in virtual time",
		Long: `Runs a flow on this machine, on recorded answers and in virtual time. Expressions, branches, loops, retries and calls of
flows of the same program are real. Timers fire at once, in the order of their times. Jobs, evaluations, decisions, events and calls of
other Cores take their results from the answers: an object with the result of each step by its path, which is the id of the block,
or ID[2] in the third iteration of a loop. A list has one answer for each time that the step asks:

  {"train": {"job_id": "job_1", "status": "COMPLETED"},
   "train[2]": {"error": {"code": "OOM", "message": "out of memory", "retryable": true}},
   "ask": {"resolution": "approve"},
   "score": [{"accuracy": 0.5}, {"accuracy": 0.8}],
   "go": {"after": "2h", "result": {"by": "ada"}},
   "slow": {"timeout": true}}

A step of a called flow has the path CALL/STEP, and the question about a failed step STEP:failure. A step without an answer is asked
for on a terminal; elsewhere the run ends with exit code 1 and the line to add.

The steps go to stderr, and the output of the flow as JSON to stdout, or with -o json the status, output, error and steps. The exit code
is 1 when the flow fails.`,
		Example: `  mind flow run train.json --input '{"accuracy": 0.7}' --answers answers.json
  mind flow run train.json --answers answers.json --events --cancel-after 2h`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.flow, "flow", "", "name of the flow (default: the first one)")
	f.StringVar(&o.input, "input", "{}", "input as JSON, or @FILE")
	f.StringVar(&o.answers, "answers", "", "file with the results of steps")
	f.BoolVar(&o.events, "events", false, "show the events that the flow emits, too")
	f.StringVar(&o.cancelAfter, "cancel-after", "", "cancel the execution after a virtual time such as 90s, 2h or 3d")
	f.StringVarP(&o.output, "output", "o", "table", "table (the output of the flow alone), json or yaml")
	return cmd
}

func (o *runOptions) run(cmd *cobra.Command, file string) error {
	if err := render.CheckOutput(o.output); err != nil {
		return exit.Misuse(err)
	}
	var cancelAfter time.Duration
	if o.cancelAfter != "" {
		var err error
		if cancelAfter, err = ir.ParseDuration(o.cancelAfter); err != nil || cancelAfter == 0 {
			return exit.Misuse(fmt.Errorf("--cancel-after %s: it must be a time such as 90s, 2h or 3d", o.cancelAfter))
		}
	}
	m, found, err := load(file)
	if err != nil {
		return err
	}
	printFindings(cmd.ErrOrStderr(), file, found)
	if check.Failed(found) {
		return exit.With(exit.Failed, nil)
	}
	if _, ok := m.Flow(o.flow); !ok {
		return exit.Misuse(fmt.Errorf("--flow %s: the program has the flows %s", o.flow, strings.Join(flowNames(m), ", ")))
	}
	input, err := readInput(o.input)
	if err != nil {
		return exit.Misuse(fmt.Errorf("--input: %w", err))
	}
	answers, err := readAnswers(o.answers)
	if err != nil {
		return exit.Misuse(fmt.Errorf("--answers %s: %w", o.answers, err))
	}
	if err := answers.Check(m); err != nil {
		return exit.Misuse(fmt.Errorf("--answers %s: %w", o.answers, err))
	}
	p := &progress{to: cmd.ErrOrStderr(), events: o.events}
	options := rehearse.Options{Flow: o.flow, Input: input, Answers: answers, Now: time.Now(), Watch: p.show, CancelAfter: cancelAfter}
	if render.IsTerminal(cmd.InOrStdin()) {
		options.Ask = newPrompt(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr()).ask
	}
	outcome, err := rehearse.Flow(m, options)
	if err != nil {
		return err
	}
	if unused := answers.Unused(); len(unused) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "not all answers were used: %s\n", strings.Join(unused, ", "))
	}
	return o.report(cmd, outcome)
}

// report prints how the flow ended.
func (o *runOptions) report(cmd *cobra.Command, outcome *rehearse.Outcome) error {
	shown := result{Outcome: outcome}
	if o.events {
		shown.Events = outcome.Events
	}
	var err error
	switch {
	case o.output != "table":
		err = render.Value(cmd.OutOrStdout(), o.output, shown)
	case outcome.Status == "completed":
		err = render.Value(cmd.OutOrStdout(), "json", outcome.Output)
	}
	if err != nil {
		return err
	}
	switch outcome.Status {
	case "completed":
		return nil
	case "failed":
		return exit.With(exit.Failed, fmt.Errorf("the flow failed at the step %s: %w", orFlow(outcome.Error.Step), outcome.Error))
	}
	return exit.With(exit.Failed, errors.New("the flow was canceled"))
}

func orFlow(step string) string {
	if step == "" {
		return "that was running"
	}
	return step
}

func flowNames(m *ir.Module) []string {
	var names []string
	for i := range m.Flows {
		names = append(names, m.Flows[i].Name)
	}
	return names
}

// readInput reads the value of --input.
func readInput(text string) (any, error) {
	data := []byte(text)
	if file, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if data, err = Read(file); err != nil {
			return nil, err
		}
	}
	return rehearse.ParseValue(data)
}

func readAnswers(file string) (*rehearse.Answers, error) {
	if file == "" {
		return rehearse.ParseAnswers([]byte("{}"))
	}
	data, err := Read(file)
	if err != nil {
		return nil, err
	}
	return rehearse.ParseAnswers(data)
}
