package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
)

func newVersion(version string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  mind version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "" || output == "table" {
				fmt.Fprintln(cmd.OutOrStdout(), version)
				return nil
			}
			return render.Value(cmd.OutOrStdout(), output, map[string]string{"version": version})
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "table, json or yaml")
	return cmd
}
