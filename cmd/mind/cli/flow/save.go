package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/forms"
)

// readDrawing reads a drawing of a file, which may also be YAML that was compiled from one.
func readDrawing(file string) (json.RawMessage, error) {
	text, err := request.Text(file)
	if err != nil {
		return nil, fmt.Errorf("reading a flow: %w", err)
	}
	data, err := JSON(file, text)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	switch form, _ := forms.Of(data); form {
	case forms.Program:
		return nil, exit.Misuse(fmt.Errorf("%s is no drawing: it has no nodes; `mind core create -f %s` takes programs", file, file))
	case forms.Manifest:
		if data, err = compile.Import(text); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
	}
	return data, nil
}

func newCreate() *cobra.Command {
	var file, name, description string
	cmd := rest.Command(&cobra.Command{
		Use:   "create -f FILE",
		Short: "Keep a drawing in the cluster",
		Long: `Keeps a drawing in the cluster, and prints its id. The file is the JSON of the designer, or YAML that was compiled from it. It need
not be valid: mind flow validate says what is wrong with it. The name is that of the drawing unless --name gives another.`,
		Example: `  mind flow create -f triage.flow.json
  mind flow create -f triage.yaml --name 'Ticket triage' --description 'picks a team'`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		content, err := readDrawing(file)
		if err != nil {
			return err
		}
		if name == "" {
			var graph struct{ Name string }
			if err := json.Unmarshal(content, &graph); err != nil || graph.Name == "" {
				return exit.Misuse(errors.New("the drawing has no name: give one with --name"))
			}
			name = graph.Name
		}
		var made flow
		data, err := c.Post(ctx, target.FlowPath, map[string]any{"name": name, "description": description, "content": content}, "", &made)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintln(cmd.OutOrStdout(), made.ID)
		return nil
	})
	cmd.Flags().StringVarP(&file, "file", "f", "", "the drawing; - is stdin")
	cmd.Flags().StringVar(&name, "name", "", "name of the flow")
	cmd.Flags().StringVar(&description, "description", "", "what it is for")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

func newSave() *cobra.Command {
	var file, basedOn string
	cmd := about(&cobra.Command{
		Use:   "save FLOW -f FILE",
		Short: "Save another content of a flow, as its next version",
		Long: `Saves another content of a flow, as its next version. The content was made from a version: the one that --based-on names, or
that the file has in its field version, as mind flow show --out writes it. When the flow is at another version by now, somebody else
has saved meanwhile: nothing is changed, and the error says how to go on.`,
		Example: `  mind flow save ticket-triage -f triage.flow.json
  mind flow save ticket-triage -f triage.flow.json --based-on 0.1.3`,
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id string, _ []string) error {
		content, err := readDrawing(file)
		if err != nil {
			return err
		}
		from := basedOn
		if from == "" {
			var graph struct{ Version string }
			if err := json.Unmarshal(content, &graph); err != nil || graph.Version == "" {
				return exit.Misuse(fmt.Errorf("say with --based-on which version the content was made from: `mind flow versions %s` lists them", id))
			}
			from = graph.Version
		}
		var f flow
		data, err := c.CallIf(ctx, http.MethodPut, flowPath(id), `"`+from+`"`, nil, map[string]any{"content": content}, rest.NewKey(), &f)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is at version %s\n", f.Name, f.Version)
		return nil
	})
	cmd.Flags().StringVarP(&file, "file", "f", "", "the drawing; - is stdin")
	cmd.Flags().StringVar(&basedOn, "based-on", "", "the version that the content was made from (default: the one in the file)")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}
