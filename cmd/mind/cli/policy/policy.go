// Package policy holds the commands for the policy of the scheduler: showing it, setting it, and trying a change on the past first.
package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/simulate"
)

// policyKeys are the names of the policy's values, with their meanings.
var policyKeys = [][2]string{
	{"order", "which of the waiting jobs of one user with the same priority comes first: FIFO (the oldest), SHORTEST (the one that is predicted to need the least time) or ATTAINED (the one that has had the least GPU time)"},
	{"half_life_seconds", "the age at which GPU time counts half for fair share"},
	{"aging_step_seconds", "the waiting time that counts as one step of priority; 0: waiting does not count"},
	{"preemption.enabled", "true: a preemptible job may also be preempted for one of the same priority that comes first by the order; false: only for a higher priority"},
	{"preemption.protect_seconds", "how long an attempt is left alone from its start by preemption for the sake of the order"},
	{"preemption.protect_from_priority_seconds", "how long an attempt is left alone from its start by jobs of a higher priority; 0: it is not"},
	{"preemption.ratio", "how many times more GPU time the victim must be predicted to need still than the job that gets its GPUs"},
	{"preemption.every_seconds", "the time between two decisions to preempt for the sake of the order"},
	{"preemption.restart_cost_seconds", "what a restart takes, beyond the work since the last checkpoint"},
	{"backfill.reservations", "how many blocked jobs have their start reserved at a time; 0: none"},
	{"backfill.after_seconds", "how long a job waits before a start is reserved for it"},
	{"topology.levels", "the labels of nodes that name the domains between them, innermost first, with commas between them; empty: mind.io/clique,mind.io/leaf,mind.io/spine,mind.io/block"},
	{"hold_seconds", "how long the GPUs of a gang's other tasks are kept for it after a failure of the infrastructure; 0: they are not"},
	{"hours_grace_percent", "how far running jobs without a time limit may exceed the GPU hours of their tenant before they are stopped, in percent of these; -1: they are not stopped"},
	{"keep_finished", "how many finished jobs are kept; those that ended first go first"},
	{"keep_specs_seconds", "how long the request of a finished job (command, environment, configs) is kept; then it can no longer be retried"},
}

// Command returns `mind policy`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Show and set how the scheduler decides",
		Long: `Shows and sets how the scheduler decides: one policy for the whole cluster, which is in force from the moment it is set.

Everybody may see it. Setting it requires the permission scaimind:cluster_admin, and is recorded in the audit log.`,
		Example: `  mind policy show
  mind policy set half_life_seconds=86400
  mind policy set order=SHORTEST --after-simulating --measure p99-wait`,
	}
	cmd.AddCommand(newPolicyShow(), newPolicySet())
	return cmd
}

func newPolicyShow() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:     "show",
		Short:   "Show the policy",
		Example: `  mind policy show`,
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		data, err := c.Get(ctx, "/policy", nil, nil)
		if err != nil {
			return err
		}
		return printPolicy(cmd, output, data)
	})
}

func newPolicySet() *cobra.Command {
	var help strings.Builder
	for _, k := range policyKeys {
		fmt.Fprintf(&help, "  %s\n      %s\n", k[0], k[1])
	}
	var trial trial
	cmd := rest.Command(&cobra.Command{
		Use:   "set KEY=VALUE...",
		Short: "Set values of the policy; the others stay as they are",
		Long: `Sets values of the policy. Those that are not given stay as they are. No running job is stopped by a change; waiting jobs are
considered again at once. If somebody else changes the policy at the same time, one of the two is refused.

With --after-simulating, the scheduler first runs over the history of the cluster, in virtual time, under the policy in force and
under the new one (mind simulate --from-cluster). Both are shown. The policy is set only if the new one is not worse by --measure
than --tolerance allows; otherwise the exit code is 1 and nothing is changed. It takes an operator's certificate besides.

The measures:
` + simulate.JudgedHelp() + `
The keys:
` + help.String(),
		Example: `  mind policy set half_life_seconds=86400
  mind policy set order=SHORTEST preemption.enabled=true
  mind policy set order=SHORTEST --after-simulating --measure p99-wait --tolerance 5% --since 30d`,
		Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var keys []cobra.Completion
			for _, k := range policyKeys {
				keys = append(keys, cobra.CompletionWithDesc(k[0]+"=", k[1]))
			}
			return keys, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		},
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		body, err := policyBody(args)
		if err != nil {
			return exit.Misuse(err)
		}
		if err := trial.check(cmd.Flags()); err != nil {
			return err
		}
		if trial.on {
			if err := trial.run(ctx, cmd, c, output, body); err != nil {
				return err
			}
		}
		data, err := c.Call(ctx, http.MethodPut, "/policy", nil, body, rest.NewKey(), nil)
		if err != nil {
			return err
		}
		return printPolicy(cmd, output, data)
	})
	trial.bind(cmd)
	return cmd
}

// policyBody makes the request body from KEY=VALUE arguments.
func policyBody(args []string) (map[string]any, error) {
	body := map[string]any{}
	for _, arg := range args {
		key, text, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, fmt.Errorf("%q: write KEY=VALUE", arg)
		}
		if !slices.ContainsFunc(policyKeys, func(k [2]string) bool { return k[0] == key }) {
			return nil, fmt.Errorf("%q is no key of the policy: `mind policy set --help` lists them", key)
		}
		var value any = text
		switch {
		case key == "order":
			value = strings.ToUpper(text)
		case key == "preemption.enabled":
			on, err := strconv.ParseBool(text)
			if err != nil {
				return nil, errors.New("preemption.enabled is true or false")
			}
			value = on
		case key == "topology.levels":
		default:
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("%s is a whole number, not %q", key, text)
			}
			value = n
		}
		into := body
		if group, name, nested := strings.Cut(key, "."); nested {
			if body[group] == nil {
				body[group] = map[string]any{}
			}
			into, key = body[group].(map[string]any), name
		}
		into[key] = value
	}
	return body, nil
}

func printPolicy(cmd *cobra.Command, output string, data json.RawMessage) error {
	if output != "table" {
		return render.Data(cmd.OutOrStdout(), output, data)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		return err
	}
	t := render.NewTable(cmd.OutOrStdout(), "KEY", "VALUE", "MEANING").Fit(render.Width(cmd.OutOrStdout()))
	for _, k := range policyKeys {
		var value any = got
		for _, name := range strings.Split(k[0], ".") {
			inner, _ := value.(map[string]any)
			value = inner[name]
		}
		t.Row(k[0], fmt.Sprint(value), k[1])
	}
	return t.Flush()
}
