package flow

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/forms"
	"github.com/mindcoordinator/mind/flow/ir"
)

// checked is the result for one file.
type checked struct {
	File        string             `json:"file"`
	OK          bool               `json:"ok"`
	Diagnostics []check.Diagnostic `json:"diagnostics"`
}

func newValidate() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Say what is wrong with programs and drawings",
		Long: `Says what is wrong with programs, and with drawings, which are JSON of the designer or YAML that was compiled from it: one line for each finding, with the block and its node. A program with warnings alone is
fine, and the exit code is 0; with an error it is 1.

With -o json the result of a file is {"file", "ok", "diagnostics"}, and that of several files {"files": [...]}.`,
		Example: `  mind flow validate train.json
  mind flow validate flows/*.yaml -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := render.CheckOutput(output); err != nil {
				return exit.Misuse(err)
			}
			results, ok := make([]checked, 0, len(files)), true
			for _, file := range files {
				_, found, err := load(file)
				if err != nil {
					return err
				}
				fine := !check.Failed(found)
				ok = ok && fine
				results = append(results, checked{file, fine, found})
			}
			if err := printChecked(cmd.OutOrStdout(), output, results); err != nil {
				return err
			}
			if !ok {
				return exit.With(exit.Failed, nil)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	return cmd
}

// load reads a program and checks it. It is nil if it cannot be read.
func load(file string) (*ir.Module, []check.Diagnostic, error) {
	data, err := Read(file)
	if unreadable := new(unreadableError); errors.As(err, &unreadable) {
		return nil, []check.Diagnostic{{Severity: check.SeverityError, Code: "SYNTAX", Message: exit.OneLine(err)}}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading a program: %w", err)
	}
	m, found := forms.Module(data)
	if found == nil {
		found = []check.Diagnostic{}
	}
	return m, found, nil
}

func printChecked(w io.Writer, output string, results []checked) error {
	switch {
	case output == "table":
		for i := range results {
			printFindings(w, results[i].File, results[i].Diagnostics)
		}
		return nil
	case len(results) == 1:
		return render.Value(w, output, results[0])
	}
	return render.Value(w, output, map[string]any{"files": results})
}

func printFindings(w io.Writer, file string, found []check.Diagnostic) {
	for _, d := range found {
		fmt.Fprintf(w, "%s: %s\n", file, render.Printable(d.String()))
	}
}
