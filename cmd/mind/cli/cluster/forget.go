package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

func newNode() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "node",
		Short:   "Forget a node that will not come back",
		Example: `  mind node forget n3`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNodeForget())
	return cmd
}

func newNodeForget() *cobra.Command {
	var yes bool
	cmd := rest.Command(&cobra.Command{
		Use:   "forget NODE",
		Short: "Take a node out of the cluster, on your word that no process of it is alive",
		Long: `Takes a node out of the cluster. Its tasks count as lost: jobs that may restart do so elsewhere, also those that waited for
this node; the others fail. You vouch that no process of the node is alive: one that is could write to the same files as its
replacement. Refused while the node's agent is connected: stop it first. A node that was forgotten comes back when its agent
starts again.`,
		Example: `  mind node forget n3
  mind node forget n3 --yes`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeNodes,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		path := "/cluster/nodes/" + url.PathEscape(args[0])
		if !yes {
			var n node
			if _, err := c.Get(ctx, path, nil, &n); err != nil {
				return err
			}
			if err := confirmForget(cmd, args[0], &n); err != nil {
				return err
			}
		}
		data, err := c.Call(ctx, http.MethodDelete, path, nil, nil, rest.NewKey(), nil)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s forgotten\n", args[0])
		return err
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// confirmForget asks whoever sits there for the name of the node, and refuses to guess when nobody does.
func confirmForget(cmd *cobra.Command, id string, n *node) error {
	in := cmd.InOrStdin()
	if _, file := in.(*os.File); file && !render.IsTerminal(in) {
		return exit.Misuse(errors.New("stdin is no terminal to ask at: give --yes if no process of the node is alive any more"))
	}
	since := ""
	if n.AwaySince != nil {
		since = " since " + n.AwaySince.Local().Format(time.DateTime)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s is %s%s. Its tasks (%d) will count as lost, and their jobs may start elsewhere at once.\nIf no process of the node is alive any more, type its name to go on: ", id, n.State, since, n.Tasks)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if strings.TrimSpace(answer) != id {
		return errors.New("nothing was done")
	}
	return nil
}
