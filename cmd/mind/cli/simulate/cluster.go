package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/simulate"
	"github.com/mindcoordinator/mind/simulate/history"
	"github.com/mindcoordinator/mind/simulate/trace"
)

// ofTraces and ofClusters are the flags that are only valid with one source of jobs.
var (
	ofTraces   = []string{"trace", "inventory", "nodes", "format", "seed", "until-demand", "limits"}
	ofClusters = []string{"since", "save", "coordinators", "cert", "key", "ca", "secret", "timeout"}
)

// checkSource refuses invalid combinations of flags.
func (o *options) checkSource(flags *pflag.FlagSet) error {
	given := func(names []string) string {
		if i := slices.IndexFunc(names, flags.Changed); i >= 0 {
			return names[i]
		}
		return ""
	}
	traces, clusters := given(ofTraces), given(ofClusters)
	switch {
	case o.fromCluster && traces != "":
		return exit.Misuse(fmt.Errorf("--from-cluster takes the jobs and the nodes of the cluster: leave out --%s", traces))
	case !o.fromCluster && clusters != "":
		return exit.Misuse(fmt.Errorf("--%s goes with --from-cluster only", clusters))
	case !o.fromCluster && o.trace == "":
		return exit.Misuse(errors.New("which jobs? Give --trace JOBS.csv, or --from-cluster for those of your cluster"))
	}
	return nil
}

// runCluster runs the history of the cluster, under the policy in force and under the named ones.
func (o *options) runCluster(ctx context.Context, stderr io.Writer) (results, error) {
	h, err := o.source.Fetch(ctx)
	if err != nil {
		return results{}, err
	}
	if o.save != "" {
		if err := saveTrace(o.save, h, stderr); err != nil {
			return results{}, err
		}
	}
	res := results{History: &h.About}
	m, err := runHistory(ctx, stderr, h, inForce, h.Policy)
	if err != nil {
		return res, err
	}
	m.InForce = true
	res.Runs = append(res.Runs, m)
	names := o.policies
	if len(names) == 0 {
		names = simulate.Policies()
	}
	for _, name := range names {
		policy, _ := simulate.PolicyFrom(h.Policy, name)
		if len(o.policies) == 0 && h.Policy.Changes(&policy) == "nothing" {
			continue // the first column has it already
		}
		if m, err = runHistory(ctx, stderr, h, name, policy); err != nil {
			return res, err
		}
		res.Runs = append(res.Runs, m)
	}
	return res, nil
}

// printNotes prints which part of a cluster's history was simulated.
func (o *options) printNotes(w io.Writer, res *results) {
	if res.History == nil {
		return
	}
	for _, note := range res.History.Notes() {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintln(w)
}

// saveTrace writes the jobs of a history to a file, which must not exist.
func saveTrace(path string, h *history.History, stderr io.Writer) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("--save %s: the file exists already: choose another name", path)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	written, left, err := trace.WritePhilly(f, h.Jobs)
	if err == nil {
		fmt.Fprintf(stderr, "%s: %d jobs, in minutes and without tenants and queues", path, written)
		if left > 0 {
			fmt.Fprintf(stderr, "; %d that need no whole GPU are left out", left)
		}
		fmt.Fprintln(stderr)
	}
	return err
}
