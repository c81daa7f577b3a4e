package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// quota has the limits and the usage of a tenant. A nil limit means no limit.
type quota struct {
	Tenant     string             `json:"tenant_id"`
	MaxGPUs    *int               `json:"max_gpus"`
	MaxRunning *int               `json:"max_running_jobs"`
	MaxJobs    *int               `json:"max_jobs"`
	MaxByType  byType             `json:"max_gpus_by_type"`
	MaxHours   *int               `json:"max_gpu_hours"`
	ByType     map[string]float64 `json:"gpus_by_type"`
	Hours      float64            `json:"gpu_hours"`
	GPUs       float64            `json:"gpus"`
	Running    int                `json:"running_jobs"`
	Jobs       int                `json:"jobs"`
	UpdatedBy  string             `json:"updated_by"`

	MaxSubmissions *int    `json:"max_submissions"`
	MaxSpecMB      *int    `json:"max_spec_mb"`
	Submissions    int     `json:"submissions"`
	SpecMB         float64 `json:"spec_mb"`
}

func newQuota() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quota",
		Short: "Show and set how much of the cluster a tenant may use",
		Long: `Shows and sets how much of the cluster a tenant may use.

A quota can limit the GPUs that a tenant's jobs hold at once (a fraction of a GPU counts as that fraction), in all and by type,
the jobs that run at once, the unfinished jobs, and the GPU hours of a calendar month (UTC). A job beyond a limit waits and shows
the reason; only a job beyond the number of unfinished jobs is refused when it is submitted. Lowering a quota stops no job: no
job starts until enough others have ended. Without a quota, a tenant may have 10000 unfinished submissions (a job array is one),
with 256 MiB of requests together, so that no tenant fills the memory of the coordinators alone.

When the GPU hours are used up, no job with GPUs starts until the next month. Running jobs with a time limit go on; those without
are warned, and stopped when the hours are exceeded by more than the policy allows (hours_grace_percent).

Everybody may see the quota of their own tenant. Setting it requires the permission scaimind:cluster_admin, and mind:operator
for another tenant; the token of mind dev has both.`,
		Example: `  mind quota show
  mind quota set acme --max-gpus 16 --max-jobs 1000
  mind quota set acme --max-gpus-by-type H100=8,A100=32 --max-gpu-hours 5000
  mind quota list`,
	}
	cmd.AddCommand(newQuotaShow(), newQuotaSet(), newQuotaClear(), newQuotaList())
	return cmd
}

// quotaPath returns the REST path of a tenant's quota; without a tenant, of the caller's own.
func quotaPath(args []string) string {
	tenant := "-"
	if len(args) > 0 {
		tenant = args[0]
	}
	return "/tenants/" + url.PathEscape(tenant) + "/quota"
}

func newQuotaShow() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "show [TENANT]",
		Short: "Show the limits and the usage of a tenant (default: your own)",
		Example: `  mind quota show
  mind quota show acme`,
		Args: cobra.MaximumNArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var got quota
		data, err := c.Get(ctx, quotaPath(args), nil, &got)
		if err != nil {
			return err
		}
		return printQuotas(cmd.OutOrStdout(), output, data, got)
	})
}

func newQuotaList() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:     "list",
		Short:   "List quotas: of all tenants if you are an operator, otherwise your own",
		Example: `  mind quota list`,
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		var got struct {
			Quotas []quota `json:"quotas"`
		}
		data, err := c.Get(ctx, "/quotas", nil, &got)
		if err != nil {
			return err
		}
		return printQuotas(cmd.OutOrStdout(), output, data, got.Quotas...)
	})
}

func newQuotaSet() *cobra.Command {
	limits := []struct {
		flag, field, help string
		value             int
	}{
		{flag: "max-gpus", field: "max_gpus", help: "number of GPUs that its jobs may hold at once"},
		{flag: "max-running-jobs", field: "max_running_jobs", help: "number of jobs that may run at once"},
		{flag: "max-gpu-hours", field: "max_gpu_hours", help: "GPU hours in a calendar month, UTC; once they are used, no job with GPUs starts until the next one"},
		{flag: "max-jobs", field: "max_jobs", help: "number of unfinished jobs; a job beyond it is refused when it is submitted"},
	}
	bounds := []struct {
		flag, field, help string
		value             bound
	}{
		{flag: "max-submissions", field: "max_submissions", help: "number of unfinished submissions, of which a job array is one; not given: 10000"},
		{flag: "max-spec-mb", field: "max_spec_mb", help: "MiB that the requests of unfinished jobs have together; not given: 256"},
	}
	var types byType
	cmd := rest.Command(&cobra.Command{
		Use:   "set TENANT",
		Short: "Set the limits of a tenant; omitted limits are removed",
		Long: `Sets all limits of a tenant: a limit that is not given is removed, and a bound has its default again. 0 allows nothing.

Running jobs are not affected; waiting jobs are considered again at once.`,
		Example: `  mind quota set acme --max-gpus 16 --max-running-jobs 50 --max-jobs 1000
  mind quota set guests --max-gpus 0
  mind quota set sweeps --max-submissions unlimited --max-spec-mb 1024`,
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		body := map[string]any{}
		for i := range limits {
			if cmd.Flags().Changed(limits[i].flag) {
				body[limits[i].field] = limits[i].value
			}
		}
		for i := range bounds {
			if cmd.Flags().Changed(bounds[i].flag) {
				body[bounds[i].field] = int(bounds[i].value)
			}
		}
		if len(types) > 0 {
			body["max_gpus_by_type"] = types
		}
		if len(body) == 0 {
			return exit.Misuse(errors.New("give at least one limit; mind quota clear removes all of them"))
		}
		var got quota
		data, err := c.Call(ctx, http.MethodPut, quotaPath(args), nil, body, rest.NewKey(), &got)
		if err != nil {
			return err
		}
		return printQuotas(cmd.OutOrStdout(), output, data, got)
	})
	cmd.Flags().Var(&types, "max-gpus-by-type", "number of GPUs of each type that its jobs may hold at once, as H100=16,A100=64")
	for i := range bounds {
		cmd.Flags().Var(&bounds[i].value, bounds[i].flag, bounds[i].help+"; or unlimited")
	}
	for i := range limits {
		cmd.Flags().IntVar(&limits[i].value, limits[i].flag, 0, limits[i].help+"; not given: no limit")
	}
	return cmd
}

func newQuotaClear() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:     "clear TENANT",
		Short:   "Remove all limits of a tenant",
		Example: `  mind quota clear acme`,
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		data, err := c.Call(ctx, http.MethodDelete, quotaPath(args), nil, nil, rest.NewKey(), nil)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s has no quota\n", args[0])
		return nil
	})
}

func printQuotas(w io.Writer, output string, data json.RawMessage, quotas ...quota) error {
	if output != "table" {
		return render.Data(w, output, data)
	}
	t := render.NewTable(w, "TENANT", "GPUS", "RUNNING", "JOBS", "SUBMISSIONS", "REQUESTS", "GPU HOURS", "BY TYPE", "SET BY")
	for _, q := range quotas {
		t.Row(q.Tenant, ofLimit(strconv.FormatFloat(q.GPUs, 'f', -1, 64), q.MaxGPUs), ofLimit(strconv.Itoa(q.Running), q.MaxRunning),
			ofLimit(strconv.Itoa(q.Jobs), q.MaxJobs),
			ofBound(strconv.Itoa(q.Submissions), q.MaxSubmissions, 10_000), ofBound(strconv.FormatFloat(q.SpecMB, 'f', -1, 64), q.MaxSpecMB, 256)+" MiB",
			ofLimit(strconv.FormatFloat(q.Hours, 'f', 1, 64), q.MaxHours), q.MaxByType.of(q.ByType), q.UpdatedBy)
	}
	return t.Flush()
}

func ofLimit(have string, limit *int) string {
	if limit == nil {
		return have + " of any"
	}
	return have + " of " + strconv.Itoa(*limit)
}

// ofBound is ofLimit of what is bounded also when nobody has set a limit.
func ofBound(have string, limit *int, byDefault int) string {
	switch {
	case limit == nil:
		limit = &byDefault
	case *limit < 0:
		limit = nil
	}
	return ofLimit(have, limit)
}

// bound is a number, or unlimited, which is -1.
type bound int

func (b *bound) String() string {
	if *b < 0 {
		return unlimited
	}
	return strconv.Itoa(int(*b))
}

// Set implements pflag.Value.
func (b *bound) Set(text string) error {
	if text == unlimited {
		*b = -1
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no number from 0 to 2147483647, and not %s", text, unlimited)
	}
	*b = bound(n)
	return nil
}

// Type implements pflag.Value.
func (b *bound) Type() string { return "N" }

const unlimited = "unlimited"
