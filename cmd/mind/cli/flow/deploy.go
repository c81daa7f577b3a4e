package flow

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

func newDeploy() *cobra.Command {
	var version string
	var noStart, publish bool
	cmd := about(&cobra.Command{
		Use:   "deploy FLOW",
		Short: "Make a flow the program of a Core, and start it",
		Long: `Makes the current version of a flow the program of a Core, starts the Core, and prints its slug. Deployed again, it is another
version of the same Core. The findings of the compiler, and what stays open, go to stderr.`,
		Example: `  mind flow deploy ticket-triage
  mind flow deploy ticket-triage --version 0.1.3 --no-start`,
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id string, _ []string) error {
		body := map[string]any{"start": !noStart}
		if version != "" {
			body["version"] = version
		}
		if cmd.Flags().Changed("publish-as-model") {
			body["publish_as_model"] = publish
		}
		var made struct {
			Core     string `json:"core_id"`
			Slug     string `json:"core_slug"`
			Version  int    `json:"core_version"`
			Warnings []string
		}
		data, err := c.Post(ctx, flowPath(id, "deploy"), body, "", &made)
		if err != nil {
			return err
		}
		for _, w := range made.Warnings {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+w)
		}
		if !noStart {
			if err := runs(ctx, c, made.Core); err != nil {
				return fmt.Errorf("the flow was deployed, and the Core %s does not run: %w", made.Slug, err)
			}
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintln(cmd.OutOrStdout(), made.Slug)
		fmt.Fprintf(cmd.ErrOrStderr(), "it is version %d of the Core; `mind core invoke %s` calls it\n", made.Version, made.Slug)
		return nil
	})
	cmd.Flags().StringVar(&version, "version", "", "the version to deploy (default: the current one)")
	cmd.Flags().BoolVar(&noStart, "no-start", false, "leave the Core as it is")
	cmd.Flags().BoolVar(&publish, "publish-as-model", false, "publish the Core as a model, whatever the flow says; this version of Mind only warns")
	return cmd
}

// runs waits until a Core that starts has started. One that a user has paused or stopped stays so.
func runs(ctx context.Context, c *rest.Client, id string) error {
	type core struct{ Status, Error string }
	got, _, err := rest.Poll(ctx, c, target.CorePath+"/cores/"+id, func(k *core) (bool, error) { return k.Status != "starting", nil })
	if err == nil && got.Status == "error" {
		err = fmt.Errorf("it is in error: %s", got.Error)
	}
	return err
}

func newDeployments() *cobra.Command {
	return about(&cobra.Command{
		Use: "deployments FLOW", Short: "List the deployments of a flow", Example: `  mind flow deployments ticket-triage`, Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id string, _ []string) error {
		var page struct {
			Items []struct {
				ID          string `json:"deployment_id"`
				Version     string
				Core        string     `json:"core_id"`
				Slug        string     `json:"core_slug"`
				CoreVersion int        `json:"core_version"`
				By          string     `json:"deployed_by"`
				At          *time.Time `json:"deployed_at"`
			}
		}
		data, err := c.Get(ctx, flowPath(id, "deployments"), nil, &page)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		t := render.NewTable(cmd.OutOrStdout(), "DEPLOYMENT", "VERSION", "CORE", "CORE VERSION", "BY", "AGE").Fit(render.Width(cmd.OutOrStdout()))
		for i := range page.Items {
			d := &page.Items[i]
			core := d.Slug
			if core == "" {
				core = d.Core + " (deleted)"
			}
			t.Row(d.ID, d.Version, core, strconv.Itoa(d.CoreVersion), d.By, render.Ago(d.At))
		}
		return t.Flush()
	})
}

func newTest() *cobra.Command {
	var version string
	cmd := about(&cobra.Command{
		Use:     "test FLOW",
		Short:   "Run the tests of a flow, on recorded answers",
		Long:    `Runs the tests that the content of a flow has, on their recorded answers and in virtual time. The exit code is 1 when one fails.`,
		Example: `  mind flow test ticket-triage`,
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id string, _ []string) error {
		var report struct {
			Passed, Failed int
			Results        []struct {
				Name, Message string
				Passed        bool
			}
		}
		body := map[string]any{}
		if version != "" {
			body["version"] = version
		}
		data, err := c.Post(ctx, flowPath(id, "run-tests"), body, "", &report)
		if err != nil {
			return err
		}
		if output != "table" {
			err = render.Data(cmd.OutOrStdout(), output, data)
		} else {
			for _, r := range report.Results {
				if r.Passed {
					fmt.Fprintln(cmd.OutOrStdout(), "ok    "+r.Name)
				} else {
					fmt.Fprintln(cmd.OutOrStdout(), "FAIL  "+r.Name+": "+r.Message)
				}
			}
		}
		if err == nil && report.Failed > 0 {
			return exit.With(exit.Failed, fmt.Errorf("%d of %d tests failed", report.Failed, report.Passed+report.Failed))
		}
		return err
	})
	cmd.Flags().StringVar(&version, "version", "", "the version to test (default: the current one)")
	return cmd
}
