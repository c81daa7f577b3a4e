package flow

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/durable"
	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/forms"
	"github.com/mindcoordinator/mind/flow/graph"
)

// ends are the names of files by the format that is written into them.
var ends = map[string]string{"yaml": ".yaml", "ir": ".ir.json"}

func newCompile() *cobra.Command {
	var format, out string
	var noVerify bool
	cmd := &cobra.Command{
		Use:   "compile FLOW",
		Short: "Compile a drawing to YAML or to a program",
		Long: `Compiles a drawing, which is the JSON of the designer or YAML that was compiled before, to the YAML that is deployed, or to the
intermediate form that Cores run. Findings go to stderr; the exit code is 1 if one is an error, and nothing is written then.

The file is named as the drawing is, with the end .yaml or .ir.json, unless --out names it; - is stdout.`,
		Example: `  mind flow compile triage.flow.json
  mind flow compile triage.flow.json --format ir --out -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch format {
			case "yaml", "ir":
			case "scai":
				return exit.Misuse(fmt.Errorf("--format scai: the language ScaiCore is not written yet: use yaml or ir"))
			default:
				return exit.Misuse(fmt.Errorf("--format %s: use yaml or ir", format))
			}
			data, err := compiled(cmd.ErrOrStderr(), args[0], format)
			if err != nil {
				return err
			}
			if out == "" {
				out = renamed(args[0], ends[format])
			}
			return write(cmd.OutOrStdout(), out, data)
		},
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", "yaml", "yaml, or ir: the intermediate form, as JSON")
	f.StringVar(&out, "out", "", "file to write; - is stdout")
	f.BoolVar(&noVerify, "no-verify", false, "taken and ignored: each program is checked")
	_ = f.MarkHidden("no-verify")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"yaml", "ir"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// compiled compiles a file. Findings are printed; with an error among them it fails.
func compiled(stderr io.Writer, file, format string) ([]byte, error) {
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
		return nil, fmt.Errorf("%s is no drawing: it has no nodes; `mind flow validate %s` reads programs", file, file)
	case forms.Manifest:
		if data, err = compile.Import(text); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
	}
	var made []byte
	var found []graph.Diagnostic
	if format == "ir" {
		m, all := compile.Program(data)
		if found = all; m != nil {
			made, err = m.Encode()
		}
	} else {
		made, found = compile.Manifest(data)
	}
	printFindings(stderr, file, forms.Plain(found))
	if err != nil {
		return nil, fmt.Errorf("writing the program: %w", err)
	}
	if made == nil {
		return nil, exit.With(exit.Failed, nil)
	}
	return made, nil
}

func newImport() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "import YAML",
		Short: "Make a drawing of YAML",
		Long: `Makes a drawing of the YAML that ScaiFlow deploys. YAML that was compiled from a drawing gives the same drawing again, with the
configs that its steps have now. In other YAML the steps become nodes below each other; steps of an unknown form are kept in
metadata.unknown_steps.`,
		Example: `  mind flow import triage.yaml
  mind flow import triage.yaml --out -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := request.Text(args[0])
			if err != nil {
				return fmt.Errorf("reading YAML: %w", err)
			}
			content, err := compile.Import(text)
			if err != nil {
				return fmt.Errorf("reading %s: %w", args[0], err)
			}
			if out == "" {
				out = renamed(args[0], ".flow.json")
			}
			if out == args[0] {
				return exit.Misuse(fmt.Errorf("%s would be written over: name the file with --out", out))
			}
			return write(cmd.OutOrStdout(), out, content)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file to write; - is stdout")
	return cmd
}

// renamed has another end than a file.
func renamed(file, end string) string {
	if file == "-" {
		return "-"
	}
	base := strings.TrimSuffix(file, filepath.Ext(file))
	return strings.TrimSuffix(base, ".flow") + end
}

// write writes a file, and says so, or stdout.
func write(stdout io.Writer, file string, data []byte) error {
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	if file == "-" {
		_, err := stdout.Write(data)
		return err
	}
	if err := durable.WriteFile(file, data, 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	fmt.Fprintln(stdout, file)
	return nil
}
