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

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

var nodeVerbs = rest.Verbs{newNodeForget}

func newNode() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "node",
		Short:   "Remove a node that will not come back",
		Example: `  mind node forget n3`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(nodeVerbs.Make()...)
	return cmd
}

func newNodeForget() *cobra.Command {
	var yes bool
	cmd := rest.Command(&cobra.Command{
		Use:   "forget NODE",
		Short: "Remove a node from the cluster; you confirm that none of its processes is alive",
		Long: `Removes a node from the cluster. Its tasks count as lost: jobs that may restart do so on other nodes, including those that
waited for this node; the others fail. You confirm that no process of the node is alive: a live process could write to the
same files as its replacement. The command is refused while the node's agent is connected: stop the agent first. A forgotten
node joins again when its agent starts.`,
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

// confirmForget asks the user to type the name of the node, and refuses if stdin is not a terminal.
func confirmForget(cmd *cobra.Command, id string, n *node) error {
	in := cmd.InOrStdin()
	if _, file := in.(*os.File); file && !render.IsTerminal(in) {
		return exit.Misuse(errors.New("stdin is not a terminal, so you cannot be asked: give --yes if no process of the node is alive"))
	}
	since := ""
	if n.AwaySince != nil {
		since = " since " + render.Time(*n.AwaySince)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s is %s%s. Its tasks (%d) will count as lost, and their jobs may start elsewhere at once.\nIf no process of the node is alive, type its name to continue: ", id, n.State, since, n.Tasks)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if strings.TrimSpace(answer) != id {
		return errors.New("nothing was changed")
	}
	return nil
}
