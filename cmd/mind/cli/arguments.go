package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
)

// explainArguments makes every command below root answer wrong arguments, a missing flag or an unknown subcommand with
// the arguments that it takes and an example, which Cobra's own messages lack.
func explainArguments(root *cobra.Command) {
	for _, c := range root.Commands() {
		explainArguments(c)
	}
	if root.HasParent() && root.HasSubCommands() && !root.Runnable() {
		root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		root.DisableFlagsInUseLine = true
	}
	valid := root.Args
	root.Args = func(cmd *cobra.Command, args []string) error {
		wrong := valid != nil && valid(cmd, args) != nil
		switch {
		case cmd.HasSubCommands() && len(args) > 0 && (wrong || valid == nil):
			return exit.Misuse(noSuchCommand(cmd, args[0]))
		case wrong:
			return exit.Misuse(wrongArguments(cmd, args))
		}
		if missing := missingFlags(cmd); missing != "" {
			return exit.Misuse(fmt.Errorf("%s needs %s%s", cmd.CommandPath(), missing, forExample(cmd)))
		}
		return nil
	}
}

// noSuchCommand suggests the command that was probably meant, or lists those that exist.
func noSuchCommand(cmd *cobra.Command, name string) error {
	if cmd.SuggestionsMinimumDistance == 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return fmt.Errorf("there is no command %s %s: did you mean %s %s?", cmd.CommandPath(), quoted(name), cmd.CommandPath(), strings.Join(near, " or "))
	}
	var all []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, c.Name())
		}
	}
	if !cmd.HasParent() { // the root has too many for one line
		return fmt.Errorf("there is no command %s %s; %s --help lists the commands", cmd.CommandPath(), quoted(name), cmd.CommandPath())
	}
	return fmt.Errorf("there is no command %s %s: it is one of %s", cmd.CommandPath(), quoted(name), strings.Join(all, ", "))
}

func wrongArguments(cmd *cobra.Command, args []string) error {
	given := make([]string, 0, len(args))
	for _, a := range args {
		given = append(given, quoted(a))
	}
	got := strings.Join(given, " ")
	_, takes, _ := strings.Cut(cmd.Use, " ")
	switch {
	case takes == "" || strings.HasPrefix(takes, "-"):
		return fmt.Errorf("%s takes no arguments, and was given %s%s", cmd.CommandPath(), got, forExample(cmd))
	case got == "":
		return fmt.Errorf("%s needs %s%s", cmd.CommandPath(), takes, forExample(cmd))
	}
	return fmt.Errorf("%s takes %s, and was given %s%s", cmd.CommandPath(), takes, got, forExample(cmd))
}

// quoted shortens and quotes what was typed, so that it fits on one line.
func quoted(arg string) string {
	if cut := []rune(arg); len(cut) > 60 {
		arg = string(cut[:60]) + "..."
	}
	return strconv.Quote(arg)
}

// missingFlags returns the required flags that were not given.
func missingFlags(cmd *cobra.Command) string {
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if required := f.Annotations[cobra.BashCompOneRequiredFlag]; len(required) == 1 && required[0] == "true" && !f.Changed {
			missing = append(missing, "--"+f.Name)
		}
	})
	return strings.Join(missing, " and ")
}

// forExample returns the first of the command's examples, as the end of a sentence.
func forExample(cmd *cobra.Command) string {
	for line := range strings.Lines(cmd.Example) {
		line, _, _ = strings.Cut(line, "  #")
		if line = strings.TrimSpace(line); strings.Contains(" "+line, " "+cmd.Root().Name()+" ") {
			return "; for example: " + line
		}
	}
	return "; see " + cmd.CommandPath() + " --help"
}
