package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/encoding/protojson"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/simulate"
	"github.com/mindcoordinator/mind/coordinator/admin"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	measured "github.com/mindcoordinator/mind/simulate"
	"github.com/mindcoordinator/mind/simulate/history"
)

// trial simulates a new policy, which is set only if it would not have been worse.
type trial struct {
	on                 bool
	measure, tolerance string
	minJobs            int
	source             simulate.Source
}

// trialFlags are only valid with --after-simulating.
var trialFlags = []string{"measure", "tolerance", "min-jobs", "since", "coordinators", "cert", "key", "ca", "secret", "timeout"}

func (t *trial) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&t.on, "after-simulating", false, "simulate the history of the cluster first, and refuse a policy that is worse")
	f.StringVar(&t.measure, "measure", "", "what the new policy must not be worse by: "+strings.Join(simulate.JudgedBy(), ", "))
	f.StringVar(&t.tolerance, "tolerance", "5%", "how much worse it may be")
	f.IntVar(&t.minJobs, "min-jobs", 100, "refuse to judge by a history with fewer finished jobs")
	t.source.Bind(cmd)
	_ = cmd.RegisterFlagCompletionFunc("measure", cobra.FixedCompletions(simulate.JudgedBy(), cobra.ShellCompDirectiveNoFileComp))
}

// check refuses invalid combinations of flags.
func (t *trial) check(flags *pflag.FlagSet) error {
	if !t.on {
		for _, name := range trialFlags {
			if flags.Changed(name) {
				return exit.Misuse(fmt.Errorf("--%s goes with --after-simulating only", name))
			}
		}
		return nil
	}
	if t.measure == "" {
		return exit.Misuse(fmt.Errorf("worse by what? Give --measure: %s", strings.Join(simulate.JudgedBy(), ", ")))
	}
	if _, err := simulate.Judge(t.measure, &measured.Measures{}, &measured.Measures{}, 0); err != nil {
		return err
	}
	if _, err := simulate.ParseTolerance(t.tolerance); err != nil {
		return err
	}
	return rest.Positive("min-jobs", t.minJobs)
}

// run simulates, and returns an error unless the policy may be set.
func (t *trial) run(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, body map[string]any) error {
	before, err := revision(ctx, c)
	if err != nil {
		return err
	}
	h, err := t.source.Fetch(ctx)
	if err != nil {
		return fmt.Errorf("not set: %w", err)
	}
	if h.Policy.Revision != before {
		return errors.New("not set: the gateway and the coordinators do not have the same policy: it was changed just now, or --coordinators are those of another cluster than --addr")
	}
	next, err := changed(h.Policy, body)
	if err != nil {
		return err
	}
	if h.Policy.Changes(&next) == "nothing" {
		return nil // the policy is in force already
	}
	if err := t.enough(h); err != nil {
		return err
	}
	was, is, err := simulate.Compare(ctx, cmd.ErrOrStderr(), h, next)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if output != "table" {
		w = cmd.ErrOrStderr()
	}
	if err := simulate.PrintComparison(w, h, []measured.Measures{was, is}); err != nil {
		return err
	}
	tolerance, _ := simulate.ParseTolerance(t.tolerance)
	worse, err := simulate.Judge(t.measure, &was, &is, tolerance)
	switch {
	case err != nil:
		return err
	case worse != "":
		return fmt.Errorf("not set: %s, and --tolerance is %s. Change less, allow more with a larger --tolerance, or set it without --after-simulating", worse, t.tolerance)
	}
	after, err := revision(ctx, c)
	if err == nil && after != before {
		err = errors.New("not set: somebody changed the policy while this was simulated. See `mind policy show`, and repeat the command")
	}
	fmt.Fprintln(w)
	return err
}

// enough returns an error if the history has too few jobs for a judgement.
func (t *trial) enough(h *history.History) error {
	if n := h.About.Finished; n < t.minJobs {
		return fmt.Errorf("not set: only %d finished jobs are known since %s, which is too few to judge by (--min-jobs %d). Take a longer time with --since, lower --min-jobs, or set it without --after-simulating",
			n, h.About.Since.Format(time.RFC3339), t.minJobs)
	}
	return nil
}

// changed returns a policy with the values of a request.
func changed(p policy.Policy, body map[string]any) (policy.Policy, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return p, err
	}
	to := &v1.Policy{}
	if err := protojson.Unmarshal(text, to); err != nil {
		return p, err
	}
	err = admin.ChangePolicy(&p, to)
	return p, err
}

// revision returns the revision of the policy in force.
func revision(ctx context.Context, c *rest.Client) (uint64, error) {
	var p struct {
		Revision rest.Number `json:"revision"`
	}
	_, err := c.Get(ctx, "/policy", nil, &p)
	return uint64(p.Revision), err
}
