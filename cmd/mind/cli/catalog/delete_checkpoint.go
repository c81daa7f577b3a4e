package catalog

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/jobs"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

func newDeleteCheckpoint() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "delete CHECKPOINT...",
		Short: "Delete checkpoints",
		Long: `Removes checkpoints from the cluster and from the archive, pinned ones too. Their files in the output directory of the node stay.
The newest checkpoint of a job that is not over is refused: the job would go on from it.`,
		Example:           `  mind checkpoint delete ckpt_1a2b`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: jobs.CompleteCheckpoints,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var refused error
		gone := []string{}
		for _, id := range args {
			_, err := c.Call(ctx, http.MethodDelete, checkpointPath(id), nil, nil, rest.NewKey(), nil)
			switch {
			case err != nil && len(args) == 1:
				return err
			case err != nil:
				fmt.Fprintf(cmd.ErrOrStderr(), "mind: %s: %s\n", id, exit.OneLine(err))
				refused = exit.With(exit.Failed, nil)
			default:
				if gone = append(gone, id); output == "table" {
					fmt.Fprintf(cmd.OutOrStdout(), "%s deleted\n", id)
				}
			}
		}
		if output != "table" {
			if err := render.Value(cmd.OutOrStdout(), output, map[string]any{"deleted": gone}); err != nil {
				return err
			}
		}
		return refused
	})
}
