package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestDocs_nameEveryCommandAndEveryFlagOfSubmit(t *testing.T) {
	text, err := os.ReadFile("../../docs/use/cli.md")
	require.NoError(t, err)
	page := string(text)
	walk(newRoot(), func(c *cobra.Command) {
		if !c.HasSubCommands() {
			require.Truef(t, strings.Contains(page, "`"+c.CommandPath()), "docs/use/cli.md does not name %s", c.CommandPath())
		}
		if c.Name() == "submit" || c.Name() == "dev" {
			for _, usage := range strings.Fields(c.Flags().FlagUsages()) {
				name, ok := strings.CutPrefix(usage, "--")
				if ok && c.Flags().Lookup(name) != nil && name != "quiet" && name != "output" {
					require.Truef(t, strings.Contains(page, "--"+name), "docs/use/cli.md does not name --%s of %s", name, c.Name())
				}
			}
		}
	})
}
