package cores

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// steer sends what somebody wants of an execution, and prints how it is then.
func steer(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id, verb string, body map[string]any) error {
	var got execution
	data, err := c.Post(ctx, executionPath(id)+"/"+verb, body, "", &got)
	if err != nil {
		return err
	}
	if output != "table" {
		return render.Data(cmd.OutOrStdout(), output, data)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is %s\n", got.ID, got.Status)
	return nil
}

func reasoned(reason string) map[string]any {
	body := map[string]any{}
	if reason != "" {
		body["reason"] = reason
	}
	return body
}

func newCancelExecution() *cobra.Command {
	var reason string
	var force bool
	cmd := rest.Command(&cobra.Command{
		Use:   "cancel EXECUTION",
		Short: "Cancel an execution and undo what it did",
		Long: `Cancels an execution. It gives up its waits, with their jobs, decisions and calls. Then its on_cancel runs, and the compensations of
the blocks that were done, the last one first.

--force ends it at once: nothing of the program runs any more, so nothing is undone.`,
		Example: `  mind execution cancel exec_1k0g00 --reason 'wrong data'`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeExecutions,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		body := reasoned(reason)
		if force {
			body["force"] = true
		}
		return steer(ctx, cmd, c, output, args[0], "cancel", body)
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	cmd.Flags().BoolVar(&force, "force", false, "end it at once, without on_cancel and compensations")
	return cmd
}

func newPauseExecution() *cobra.Command {
	var reason string
	cmd := rest.Command(&cobra.Command{
		Use:     "pause EXECUTION",
		Short:   "Hold an execution where it is; its jobs and timers go on",
		Example: `  mind execution pause exec_1k0g00`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeExecutions,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		return steer(ctx, cmd, c, output, args[0], "pause", reasoned(reason))
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func newResumeExecution() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:     "resume EXECUTION",
		Short:   "Let a paused execution go on",
		Example: `  mind execution resume exec_1k0g00`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeExecutions,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		return steer(ctx, cmd, c, output, args[0], "resume", reasoned(""))
	})
}

func newSignal() *cobra.Command {
	var data string
	cmd := rest.Command(&cobra.Command{
		Use:     "signal EXECUTION EVENT",
		Short:   "Send an event to one execution that waits for it",
		Long:    `Sends an event to one execution. It is refused if the execution does not wait for it. mind core send reaches all executions of a Core.`,
		Example: `  mind execution signal exec_1k0g00 data.arrived --data '{"path": "s3://bucket/day-17"}'`,
		Args:    cobra.ExactArgs(2), ValidArgsFunction: completeExecutions,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		body := map[string]any{"name": args[1]}
		if data != "" {
			v, err := value("--data", data, cmd.InOrStdin())
			if err != nil {
				return err
			}
			body["data"] = v
		}
		return steer(ctx, cmd, c, output, args[0], "signal", body)
	})
	cmd.Flags().StringVar(&data, "data", "", "data of the event as JSON, @FILE, or - for stdin")
	return cmd
}

func newRetry() *cobra.Command {
	var from string
	var set []string
	cmd := rest.Command(&cobra.Command{
		Use:   "retry EXECUTION",
		Short: "Have a failed execution go on from a step",
		Long: `Has a failed execution go on from a step that it has reached: the one that failed, unless --from names another. The results of
earlier steps are kept. --set binds names to other values first, as JSON.`,
		Example: `  mind execution retry exec_1k0g00
  mind execution retry exec_1k0g00 --from train --set lr=0.01 --set 'data="s3://bucket/day-17"'`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeExecutions,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		body := map[string]any{}
		if from != "" {
			body["from"] = from
		}
		bindings := map[string]json.RawMessage{}
		for _, s := range set {
			name, text, ok := strings.Cut(s, "=")
			if !ok || name == "" {
				return exit.Misuse(fmt.Errorf("--set %s: write NAME=JSON, such as --set lr=0.01", s))
			}
			v, err := value("--set "+name, text, cmd.InOrStdin())
			if err != nil {
				return err
			}
			bindings[name] = v
		}
		if len(bindings) > 0 {
			body["bindings"] = bindings
		}
		return steer(ctx, cmd, c, output, args[0], "retry", body)
	})
	cmd.Flags().StringVar(&from, "from", "", "step to go on from (default: the one that failed)")
	cmd.Flags().StringArrayVar(&set, "set", nil, "bind a name to another value, NAME=JSON; repeatable")
	return cmd
}
