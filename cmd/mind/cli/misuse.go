package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
)

// refuseUnknownHelp makes `mind help` refuse words that are not commands. Cobra would print the general help and exit with
// 0.
func refuseUnknownHelp(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = func(cmd *cobra.Command, args []string) error {
				if found, rest, err := cmd.Root().Find(args); err != nil || len(rest) > 0 {
					return exit.Misuse(noSuchCommand(found, args[len(args)-max(1, len(rest))]))
				}
				return nil
			}
		}
	}
}

// flagMisuse returns an error with the values that a flag takes; the standard library's error names the parsing
// function instead.
func flagMisuse(cmd *cobra.Command, err error) error {
	text := err.Error()
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		wants := map[string]string{
			"int": "a whole number", "int32": "a whole number", "int64": "a whole number", "uint64": "a whole number", "float64": "a number",
			"bool": "true or false", "duration": "a time such as 90s, 30m or 2h",
		}[invalid.GetFlag().Value.Type()]
		if wants != "" {
			text = fmt.Sprintf("--%s %s: it must be %s", invalid.GetFlag().Name, invalid.GetValue(), wants)
		}
	}
	return exit.Misuse(fmt.Errorf("%s; see `%s --help`", text, cmd.CommandPath()))
}
