package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
)

// For any wrong arguments, a command prints one line with the arguments that it takes and an example, and exits with 2.
func TestArguments_everyCommandSaysWhatItTakes(t *testing.T) {
	commands, refusals := 0, 0
	walk(newRoot(), func(c *cobra.Command) {
		commands++
		require.NotNil(t, c.Args, "%s takes anything", c.CommandPath())
		for _, args := range [][]string{nil, {"x"}, {"x", "y"}, strings.Fields(strings.Repeat("x ", 25))} {
			err := c.Args(c, args)
			if err == nil {
				continue
			}
			refusals++
			var stderr bytes.Buffer
			require.Equal(t, 2, exit.Report(&stderr, err), "%s %q: %v", c.CommandPath(), args, err)
			text := stderr.String()
			require.Equal(t, 1, strings.Count(text, "\n"), text)
			require.Contains(t, text, c.CommandPath()+" ")
			if c.HasSubCommands() {
				require.Regexp(t, "did you mean|it is one of|--help lists| needs ", text)
				continue
			}
			require.Regexp(t, "takes no arguments, and was given |takes .*, and was given | needs ", text)
			require.Contains(t, text, "; for example: ", "%s has no example", c.CommandPath())
		}
	})
	require.Greater(t, commands, 60)
	require.Greater(t, refusals, 150)
}

func TestArguments_examples(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	for line, want := range map[string]string{
		"quota clear":         "mind quota clear needs TENANT; for example: mind quota clear acme",
		"quota clera acme":    `there is no command mind quota "clera": did you mean mind quota clear?`,
		"quota frobnicate":    `there is no command mind quota "frobnicate": it is one of clear, list, set, show`,
		"job a b":             `mind job takes JOB, and was given "a" "b"; for example: mind job job_1a2b`,
		"queuse":              `there is no command mind "queuse": did you mean mind queue or queues?`,
		"frobnicate":          `there is no command mind "frobnicate"; mind --help lists the commands`,
		"tls init":            "mind tls init needs --dir; for example: mind tls init --dir pki",
		"job a " + long:       `mind job takes JOB, and was given "a" "` + long[:120] + `..."; for example: mind job job_1a2b`,
		"evaluations compare": "mind evaluations compare needs EVALUATION EVALUATION...; for example: mind evaluations compare eval_1a2c eval_1a2d",
		"events x":            `mind events takes no arguments, and was given "x"; for example: mind events`,
	} {
		root := newRoot()
		root.SetArgs(strings.Fields(line))
		err := root.ExecuteContext(t.Context())
		require.Error(t, err, line)
		require.Equal(t, want, err.Error(), line)
	}
	for _, line := range []string{"quota", "chaos --help", "launchers"} { // a group without a command lists its commands
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(strings.Fields(line))
		require.NoError(t, root.ExecuteContext(t.Context()), line)
		require.Contains(t, out.String(), "Available Commands:", line)
	}
}
