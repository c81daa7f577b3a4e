package rest

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

// Command makes a command that uses the REST interface; run gets a client and the format given with -o.
func Command(cmd *cobra.Command, run func(ctx context.Context, cmd *cobra.Command, c *Client, output string, args []string) error) *cobra.Command {
	var t target.Flags
	var output string
	t.Bind(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := render.CheckOutput(output); err != nil {
			return exit.Misuse(err)
		}
		t.Warnings = cmd.ErrOrStderr()
		c, err := NewClient(t)
		if err != nil {
			return err
		}
		return run(cmd.Context(), cmd, c, output, args)
	}
	return cmd
}

// Verbs are the verbs below a noun. The file of a verb adds it when the program starts, so that a verb is one file.
type Verbs []func() *cobra.Command

// Add adds a verb.
func (v *Verbs) Add(verb func() *cobra.Command) { *v = append(*v, verb) }

// Make makes the command of each verb.
func (v Verbs) Make() []*cobra.Command {
	var all []*cobra.Command
	for _, verb := range v {
		all = append(all, verb())
	}
	return all
}

// Positive refuses a number below 1.
func Positive(flag string, n int) error {
	if n < 1 {
		return exit.Misuse(fmt.Errorf("--%s %d: it must be 1 or more", flag, n))
	}
	return nil
}

// HideDefaults hides the default values of flags whose zero value only means "not given".
func HideDefaults(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flags.Lookup(name).DefValue = "0"
	}
}
