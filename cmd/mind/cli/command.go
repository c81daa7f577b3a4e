package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// rest makes a command that speaks REST; run gets a client, and the format that -o asks for.
func rest(cmd *cobra.Command, run func(ctx context.Context, cmd *cobra.Command, c *client, output string, args []string) error) *cobra.Command {
	var t target
	var output string
	t.bind(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(output); err != nil {
			return Misuse(err)
		}
		t.warnings = cmd.ErrOrStderr()
		c, err := newClient(t)
		if err != nil {
			return err
		}
		return run(cmd.Context(), cmd, c, output, args)
	}
	return cmd
}

// positive refuses a number that asks for nothing.
func positive(flag string, n int) error {
	if n < 1 {
		return Misuse(fmt.Errorf("--%s %d: it must be 1 or more", flag, n))
	}
	return nil
}

// hideDefaults keeps the help from showing numbers that stand for a flag that is not given.
func hideDefaults(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flags.Lookup(name).DefValue = "0"
	}
}
