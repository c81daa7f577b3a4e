package cores

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

func newCreate() *cobra.Command {
	var o options
	var start bool
	cmd := rest.Command(&cobra.Command{
		Use:   "create -f PROGRAM",
		Short: "Make a Core of a program",
		Long: `Makes a Core of a program, and prints its slug. The program is JSON, or YAML of the same shape, or a drawing of the designer, which
the gateway compiles; mind flow validate checks each of them without a cluster. The name is that of the program unless --name gives another.

A Core has to be started before it can be called; --start does so, and returns when it runs. The values of --env and --secret are stored
encrypted and are never shown, by nobody; mind core show has their names.`,
		Example: `  mind core create -f nightly.json --start
  mind core create -f nightly.yaml --name 'Nightly run' --env REGION=eu --secret HF_TOKEN=@hf-token
  pass show hf | mind core create -f nightly.json --secret HF_TOKEN`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		body, err := o.body(cmd.InOrStdin())
		if err != nil {
			return err
		}
		if body["name"] == "" {
			return exit.Misuse(errors.New("the program has no name: give one with --name"))
		}
		var made core
		data, err := c.Post(ctx, target.CorePath+"/cores", body, "", &made)
		if err != nil {
			return refused(err, o.file)
		}
		if start {
			if _, err = c.Post(ctx, corePath(made.ID)+"/start", nil, "", nil); err == nil {
				data, err = settled(ctx, c, made.ID)
			}
			if err != nil {
				return fmt.Errorf("the Core %s was made, and does not run: %w", made.Slug, err)
			}
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), made.Slug); err != nil {
			return err
		}
		if !start {
			fmt.Fprintf(cmd.ErrOrStderr(), "`mind core start %s` starts it\n", made.Slug)
		}
		return nil
	})
	o.bind(cmd)
	cmd.Flags().BoolVar(&start, "start", false, "start it, and wait until it runs")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

// refused adds to the refusal of a program how to see all that is wrong with it.
func refused(err error, file string) error {
	says := err.Error()
	if file == "" || file == "-" || !strings.Contains(says, "INVALID_SOURCE_IR") && !strings.Contains(says, "source: ") && !strings.Contains(says, "source.") {
		return err
	}
	return fmt.Errorf("%w: `mind flow validate %s` lists what is wrong", err, file)
}

func newUpdate() *cobra.Command {
	var o options
	var revision int64
	cmd := rest.Command(&cobra.Command{
		Use:   "update CORE [-f PROGRAM]",
		Short: "Give a Core another program, name or environment",
		Long: `Changes what the flags say about a Core. Another program makes a new version, which new executions run; those that are under way
keep theirs. The name stays, unless --name gives another, and with it the slug.

--env and --secret replace the whole environment: give all of its values.`,
		Example: `  mind core update nightly -f nightly.json
  mind core update nightly --env REGION=us --secret HF_TOKEN=@hf-token`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeCores,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		body, err := o.body(cmd.InOrStdin())
		if err != nil {
			return err
		}
		if o.name == "" {
			delete(body, "name")
		}
		if len(body) == 0 {
			return exit.Misuse(fmt.Errorf("nothing to change: give -f PROGRAM, --name, --env, --secret, --mode, --checkpoint-mode or --notify-url; for example: mind core update %s -f program.json", args[0]))
		}
		if revision != 0 {
			body["if_revision"] = revision
		}
		var changed core
		data, err := c.Call(ctx, http.MethodPut, corePath(args[0]), nil, body, rest.NewKey(), &changed)
		if err != nil {
			return refused(err, o.file)
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is %s, with version %d of its program\n", changed.Slug, changed.Status, changed.Version)
		return nil
	})
	o.bind(cmd)
	cmd.Flags().Int64Var(&revision, "if-revision", 0, "change it only if it still has this revision")
	rest.HideDefaults(cmd.Flags(), "if-revision")
	return cmd
}
