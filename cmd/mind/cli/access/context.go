package access

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

// ContextCommand is `mind context`.
func ContextCommand() *cobra.Command {
	var c target.Context
	var output string
	cmd := &cobra.Command{
		Use:   "context [NAME]",
		Short: "List the clusters you can use, or switch to another",
		Long:  "Without a name it lists the contexts of ~/.config/mind/config.yaml. With a name it switches to that context. --set-addr creates\nthe context first; --set-token and --set-ca-cert change it. A context that gets another address loses its token.",
		Example: `  mind context
  mind context prod --set-addr https://mind.example.org --set-token TOKEN
  mind context dev
  mind context delete prod`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := render.CheckOutput(output); err != nil {
				return exit.Misuse(err)
			}
			all, err := target.ReadContexts()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return printContexts(cmd.OutOrStdout(), output, all)
			}
			known, ok := all.Contexts[args[0]]
			switch {
			case strings.TrimSpace(args[0]) == "":
				return exit.Misuse(errors.New("the name of a context must not be empty"))
			case c == (target.Context{}) && ok:
				all.Current = args[0]
				warnOfVariables(cmd.ErrOrStderr(), args[0], known.Addr)
				return all.Write()
			case !ok && c.Addr == "":
				return fmt.Errorf("there is no context %q: create it with --set-addr and --set-token", args[0])
			case c.Addr == "" || target.SameAddress(c.Addr, known.Addr):
				c.Fill(known)
			}
			if c.Addr, err = target.ParseAddress(c.Addr); err != nil {
				return exit.Misuse(err)
			}
			warnOfVariables(cmd.ErrOrStderr(), args[0], c.Addr)
			return target.SaveContext(args[0], c)
		},
	}
	cmd.AddCommand(newContextDelete())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml; tokens are not shown")
	cmd.Flags().StringVar(&c.Addr, "set-addr", "", "address of the gateway")
	cmd.Flags().StringVar(&c.Token, "set-token", "", "bearer token")
	cmd.Flags().StringVar(&c.CACert, "set-ca-cert", "", "CA certificate (PEM) that verifies the gateway")
	return cmd
}

func newContextDelete() *cobra.Command {
	return &cobra.Command{
		Use:     "delete NAME",
		Short:   "Forget a context, with its token",
		Long:    "Forgets a context. Its token stays valid until it expires or is revoked: `mind token revoke` revokes it.",
		Example: `  mind context delete prod`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := target.ReadContexts()
			if err != nil {
				return err
			}
			if _, ok := all.Contexts[args[0]]; !ok {
				return fmt.Errorf("there is no context %q: `mind context` lists them", args[0])
			}
			delete(all.Contexts, args[0])
			if all.Current == args[0] {
				all.Current = ""
			}
			if err := all.Write(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s deleted\n", args[0])
			return err
		},
	}
}

// warnOfVariables warns if the environment names another cluster, because variables take precedence over the current
// context.
func warnOfVariables(w io.Writer, name, addr string) {
	for _, variable := range []string{"MIND_ADDR", "MIND_DEV"} {
		value := os.Getenv(variable)
		if value == "" || variable == "MIND_ADDR" && target.SameAddress(value, addr) {
			continue
		}
		fmt.Fprintf(w, "mind: warning: %s=%s is set and comes before the current context: unset %s, or give --context %s\n", variable, value, variable, name)
		return
	}
}

// completeContexts completes names of contexts.
func completeContexts(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := target.ReadContexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(all.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// printContexts prints the contexts without their tokens.
func printContexts(w io.Writer, output string, all target.Contexts) error {
	type line struct {
		Name    string `json:"name"`
		Addr    string `json:"addr"`
		CACert  string `json:"ca_cert"`
		Dev     string `json:"dev"`
		Current bool   `json:"current"`
	}
	lines := []line{}
	t := render.NewTable(w, "", "NAME", "ADDR")
	for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
		c, mark := all.Contexts[name], ""
		if name == all.Current {
			mark = "*"
		}
		t.Row(mark, name, c.Addr)
		lines = append(lines, line{name, c.Addr, c.CACert, c.Dev, name == all.Current})
	}
	if output != "table" {
		return render.Value(w, output, map[string]any{"contexts": lines})
	}
	return t.Flush()
}
