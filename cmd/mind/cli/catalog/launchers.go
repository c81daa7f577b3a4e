package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// launcherView is a launcher as the gateway returns it.
type launcherView struct {
	Framework       string            `json:"framework"`
	Argv            []string          `json:"argv"`
	DistributedArgv []string          `json:"distributed_argv"`
	Environment     map[string]string `json:"environment"`
	Hyperparameters []string          `json:"hyperparameters"`
	TrainingTypes   []string          `json:"training_types"`
	Builtin         bool              `json:"builtin"`
	UpdatedBy       string            `json:"updated_by"`
	UpdatedAt       *time.Time        `json:"updated_at"`
}

var frameworkNames = []string{"HF_TRAINER", "DEEPSPEED", "FSDP", "MEGATRON", "CUSTOM", "EVALUATION"}

func completeFramework(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return frameworkNames, cobra.ShellCompDirectiveNoFileComp
}

// Launchers returns `mind launchers`.
func Launchers() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "launchers",
		Short: "List, show and change launchers, which start the processes of a framework",
		Long: `Lists, shows and changes launchers.

A launcher says how the processes of a framework start. It is a command line with placeholders such as {script}, {nnodes} or {config}, which are filled in for each task. Mind
has one for each of HF_TRAINER, DEEPSPEED, FSDP, MEGATRON, CUSTOM and EVALUATION (evaluations); docs/use/launchers.md lists
the placeholders. A change applies to all tenants and requires the permission mind:operator, which the token of mind dev has.`,
		Example: `  mind launchers list
  mind launchers show FSDP
  mind launchers set EVALUATION -- /bin/sh /srv/mind/evaluate.sh {config}
  mind launchers reset EVALUATION`,
	}
	cmd.AddCommand(newLaunchersList(), newLaunchersShow(), newLaunchersSet(), newLaunchersReset())
	return cmd
}

func newLaunchersList() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:     "list",
		Short:   "List the launchers and whether they were changed",
		Example: `  mind launchers list`,
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		var got struct {
			Launchers []launcherView `json:"launchers"`
		}
		data, err := c.Get(ctx, "/launchers", nil, &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		t := render.NewTable(cmd.OutOrStdout(), "FRAMEWORK", "SET", "STARTS WITH")
		for _, l := range got.Launchers {
			set := "builtin"
			if !l.Builtin {
				set = render.Ago(l.UpdatedAt) + " ago"
			}
			t.Row(l.Framework, set, clipped(shellWords(l.Argv), 100))
		}
		return t.Flush()
	})
}

func newLaunchersShow() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "show FRAMEWORK",
		Short: "Show a launcher, as YAML if you want to edit it and set it again",
		Example: `  mind launchers show HF_TRAINER
  mind launchers show HF_TRAINER -o yaml > hf.yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFramework,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var got launcherView
		data, err := c.Get(ctx, "/launchers/"+url.PathEscape(strings.ToUpper(args[0])), nil, &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		return printLauncher(cmd.OutOrStdout(), got)
	})
}

func printLauncher(w io.Writer, l launcherView) error {
	f := render.NewFacts(w)
	f.Add("framework", l.Framework)
	f.Add("starts with", shellWords(l.Argv))
	f.Add("distributed", shellWords(l.DistributedArgv))
	for _, name := range slices.Sorted(maps.Keys(l.Environment)) {
		f.Add("environment", name+"="+l.Environment[name])
	}
	f.Add("training types", orAny(l.TrainingTypes))
	f.Add("hyperparameters", orAny(l.Hyperparameters))
	if l.Builtin {
		f.Add("set", "built in")
	} else {
		by := ""
		if l.UpdatedBy != "" {
			by = " by " + l.UpdatedBy
		}
		f.Add("set", render.Ago(l.UpdatedAt)+" ago"+by)
	}
	return f.Flush()
}

func orAny(names []string) string {
	if len(names) == 0 {
		return "any"
	}
	return strings.Join(names, ", ")
}

func newLaunchersSet() *cobra.Command {
	var (
		file, distributed                   string
		environment, hyperparameters, types []string
	)
	cmd := rest.Command(&cobra.Command{
		Use:   "set FRAMEWORK [-f FILE] [--distributed LINE] [--env K=V]... [-- ARGV...]",
		Short: "Replace the launcher of a framework, for all tenants",
		Long: `Replaces the launcher of a framework, for all tenants. Nothing of the old one is kept: without --env the new one sets no
variables, and without --hyperparameter and --training-type it accepts all. To change one thing, start from the current one:

  mind launchers show HF_TRAINER -o yaml > hf.yaml
  mind launchers set HF_TRAINER -f hf.yaml

A placeholder is a name in braces, filled in for each task; there is no shell unless the command line names one. A brace itself is
written {{. The command line after -- and the flags override the file. Running tasks are not affected; attempts that start from
now on use the new launcher.`,
		Example: `  mind launchers set EVALUATION -- /bin/sh /srv/mind/evaluate.sh {config}
  mind launchers set FSDP --env NCCL_DEBUG=WARN --distributed 'torchrun --nnodes={nnodes} --nproc_per_node={nproc_per_node} --node_rank={node_rank} --master_addr={master_addr} --master_port={master_port} --rdzv_id={rdzv_id} /srv/train.py {config}' -- python3 /srv/train.py {config}`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeFramework,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		body, err := launcherBody(file)
		if err != nil {
			return err
		}
		if len(args) > 1 {
			body["argv"] = args[1:]
		}
		if distributed != "" {
			body["distributed_argv"] = strings.Fields(distributed)
		}
		if len(environment) > 0 {
			variables := map[string]string{}
			for _, e := range environment {
				name, value, ok := strings.Cut(e, "=")
				if !ok || name == "" {
					return exit.Misuse(fmt.Errorf("--env %s: write NAME=VALUE", e))
				}
				variables[name] = value
			}
			body["environment"] = variables
		}
		if len(hyperparameters) > 0 {
			body["hyperparameters"] = hyperparameters
		}
		if len(types) > 0 {
			body["training_types"] = types
		}
		if body["argv"] == nil {
			return exit.Misuse(errors.New("give the command to start: mind launchers set FRAMEWORK -- PROGRAM ARGS..., or -f FILE with argv"))
		}
		data, err := c.Call(ctx, http.MethodPut, "/launchers/"+url.PathEscape(strings.ToUpper(args[0])), nil, body, rest.NewKey(), nil)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is set; attempts that start from now on use it\n", args[0])
		return nil
	})
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "launcher as YAML or JSON, as written by mind launchers show -o yaml; - is stdin")
	f.StringVar(&distributed, "distributed", "", "command line for jobs with framework.distributed, or with more than one GPU or node; split at spaces (use a file for arguments that contain spaces)")
	f.StringArrayVar(&environment, "env", nil, "variable NAME=VALUE, with placeholders; the job's own variables override it; repeatable")
	f.StringSliceVar(&hyperparameters, "hyperparameter", nil, "hyperparameter that jobs may set; all others are refused; repeatable (default: all are accepted)")
	f.StringSliceVar(&types, "training-type", nil, "training type that it accepts; all others are refused; repeatable (default: all are accepted)")
	return cmd
}

// launcherBody reads a launcher from a file and drops the fields that only the cluster sets.
func launcherBody(file string) (map[string]any, error) {
	if file == "" {
		return map[string]any{}, nil
	}
	body, err := request.Read(file)
	if err != nil {
		return nil, exit.Misuse(fmt.Errorf("reading the launcher: %w", err))
	}
	for _, told := range []string{"framework", "builtin", "updated_by", "updated_at"} {
		delete(body, told)
	}
	return body, nil
}

func newLaunchersReset() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:               "reset FRAMEWORK",
		Short:             "Go back to the built-in launcher",
		Example:           `  mind launchers reset EVALUATION`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFramework,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		data, err := c.Call(ctx, http.MethodDelete, "/launchers/"+url.PathEscape(strings.ToUpper(args[0])), nil, nil, rest.NewKey(), nil)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is the built-in launcher again\n", args[0])
		return nil
	})
}

// shellWords formats a command line as it could be typed.
func shellWords(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = arg
		if arg == "" || strings.ContainsAny(arg, " \t\n'\"\\$`;&|<>()*?#~") {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// clipped shortens a text for a column.
func clipped(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-3]) + "..."
	}
	return text
}
