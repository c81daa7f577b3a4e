package cores

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

const (
	// defaultPatience is how long invoke waits for the end.
	defaultPatience = 30 * time.Second
	// firstWait is how long the call itself waits: short flows need no second call.
	firstWait = time.Second
)

// invocation are the flags of `mind core invoke`.
type invocation struct {
	input, flow, key string
	patience         time.Duration
	noWait           bool
}

func newInvoke() *cobra.Command {
	o := invocation{patience: defaultPatience}
	cmd := rest.Command(&cobra.Command{
		Use:   "invoke CORE",
		Short: "Start an execution of a Core and print its output",
		Long: `Starts an execution of a Core, waits for its end and prints its output as JSON on stdout; with -o json the whole execution.

The exit code is 0 when it is completed, and 1 when it failed or was canceled. When it is not over after --wait, the exit code is 75, and
stderr says what it waits for and what to do. Without --wait the command returns after 30 seconds, and at once when only people can let it go
on. With --no-wait it prints the id of the execution and returns; mind execution watch follows it.

An execution goes on whatever happens to this command. With --idempotency-key it is started once, however often the command is
repeated.`,
		Example: `  mind core invoke nightly --input '{"steps": 200}'
  mind core invoke nightly --input @input.json --wait 2h
  echo '{"steps": 200}' | mind core invoke nightly --input - --no-wait`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeCores,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		return o.run(ctx, cmd, c, output, args[0])
	})
	f := cmd.Flags()
	f.StringVar(&o.input, "input", "", "input as JSON, @FILE, or - for stdin (default: none)")
	f.StringVar(&o.flow, "flow", "", "flow to run (default: that of the first api trigger, else the first one)")
	f.DurationVar(&o.patience, "wait", o.patience, "how long to wait for the end")
	f.BoolVar(&o.noWait, "no-wait", false, "print the id of the execution and return")
	f.StringVar(&o.key, "idempotency-key", "", "start it once, however often the command is repeated with this key")
	cmd.MarkFlagsMutuallyExclusive("wait", "no-wait")
	return cmd
}

func (o *invocation) run(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, name string) error {
	if o.patience < 0 {
		return exit.Misuse(fmt.Errorf("--wait %s: it must not be negative", o.patience))
	}
	patient := cmd.Flags().Changed("wait")
	began := time.Now()
	body := map[string]any{"wait_seconds": int(min(o.patience, firstWait) / time.Second)}
	if o.noWait {
		body["wait_seconds"] = 0
	}
	if o.flow != "" {
		body["flow"] = o.flow
	}
	if o.input != "" {
		input, err := value("--input", o.input, cmd.InOrStdin())
		if err != nil {
			return err
		}
		body["input"] = input
	}
	var e execution
	data, err := c.Post(ctx, corePath(name)+"/invoke", body, o.key, &e)
	switch {
	case err != nil && strings.Contains(err.Error(), "start it first"):
		return fmt.Errorf("%w: `mind core start %s --wait`", err, name)
	case err != nil:
		return err
	case o.noWait && output == "table":
		_, err := fmt.Fprintln(cmd.OutOrStdout(), e.ID)
		return err
	case o.noWait:
		return render.Data(cmd.OutOrStdout(), output, data)
	}
	now, text, err := ended(ctx, c, &e, data, o.patience-time.Since(began), patient)
	if err != nil {
		return err
	}
	if output != "table" {
		if err := render.Data(cmd.OutOrStdout(), output, text); err != nil {
			return err
		}
	} else if now.Status == "completed" {
		if err := render.Data(cmd.OutOrStdout(), "json", now.Output); err != nil {
			return err
		}
	}
	return outcome(ctx, c, now)
}

// ended waits for the end of an execution, and returns it as it is at the end or when the patience is over. Without an own time limit it
// also returns when only people can let the execution go on.
func ended(ctx context.Context, c *rest.Client, e *execution, data json.RawMessage, patience time.Duration, patient bool) (*execution, json.RawMessage, error) {
	enough := func(e *execution) bool { return e.over() || !patient && e.stuck() }
	if enough(e) || patience <= 0 {
		return e, data, nil
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now, text, err := rest.Poll(limited, c, executionPath(e.ID), func(now *execution) (bool, error) { return enough(now), nil })
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		now = new(execution)
		text, err = c.Get(ctx, executionPath(e.ID), nil, now)
	}
	switch {
	case ctx.Err() != nil:
		return nil, nil, exit.Interrupted("interrupted; the execution goes on: `mind execution watch " + e.ID + "`")
	case err != nil:
		return nil, nil, fmt.Errorf("the execution %s was started, and its end is not known: %w", e.ID, err)
	}
	return now, text, nil
}

// stuck says whether only people can let an execution go on.
func (e *execution) stuck() bool {
	for i := range e.WaitingFor {
		if e.WaitingFor[i].Kind != "decision" {
			return false
		}
	}
	return e.Status == "paused" || e.Status == "waiting" && len(e.WaitingFor) > 0
}

// outcome is the error with which a command ends that has waited for an execution.
func outcome(ctx context.Context, c *rest.Client, e *execution) error {
	switch {
	case e.Status == "completed":
		return nil
	case !e.over():
		return exit.With(exit.NoResult, errors.New(newWaits(c).line(ctx, e)))
	case e.Status == "failed":
		return exit.With(exit.Failed, fmt.Errorf("%s failed%s: `mind execution retry %s` goes on from there", e.ID, e.why(), e.ID))
	}
	return exit.With(exit.Failed, fmt.Errorf("%s is %s%s", e.ID, e.Status, e.why()))
}

// why says where and why an execution failed.
func (e *execution) why() string {
	if e.Error == nil {
		return ""
	}
	at := ""
	if e.Error.Step != "" {
		at = " at the step " + e.Error.Step
	}
	return at + ": " + e.Error.String()
}

func newSend() *cobra.Command {
	var data string
	cmd := rest.Command(&cobra.Command{
		Use:   "send CORE EVENT",
		Short: "Send an event to a Core",
		Long: `Sends an event to a Core. It wakes the executions of the Core that wait for it, and starts the flows that have a trigger for it. If an
event_driven Core has no triggers for events, every event starts its first flow.`,
		Example: `  mind core send nightly data.arrived --data '{"path": "s3://bucket/day-17"}'`,
		Args:    cobra.ExactArgs(2), ValidArgsFunction: completeCores,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		body := map[string]any{"event_name": args[1]}
		if data != "" {
			v, err := value("--data", data, cmd.InOrStdin())
			if err != nil {
				return err
			}
			body["data"] = v
		}
		var got struct {
			Woken   int      `json:"woken"`
			Started []string `json:"execution_ids"`
		}
		answer, err := c.Post(ctx, corePath(args[0])+"/events", body, "", &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, answer)
		}
		started := "started none"
		if len(got.Started) > 0 {
			started = "started " + strings.Join(got.Started, ", ")
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s woke %d and %s\n", args[1], got.Woken, started)
		return nil
	})
	cmd.Flags().StringVar(&data, "data", "", "data of the event as JSON, @FILE, or - for stdin")
	return cmd
}
