package cores

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

func newEvents() *cobra.Command {
	var follow bool
	var execution string
	limit := 50
	cmd := rest.Command(&cobra.Command{
		Use:   "events CORE",
		Short: "List what happened in the executions of a Core",
		Long: `Lists the newest events of a Core, the oldest of them first: executions that begin and end, their blocks, what they emit, and what was
sent to the Core. --follow goes on with those to come until it is interrupted. With -o json each line is an event.

The cluster keeps a bounded number of events, and drops the oldest.`,
		Example: `  mind core events nightly --follow
  mind core events nightly --execution exec_1k0g00 --limit 500 -o json`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeCores,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		if err := rest.Positive("limit", limit); err != nil {
			return err
		}
		query := url.Values{"core_id": {args[0]}}
		if execution != "" {
			query.Set("execution_id", execution)
		}
		w := cmd.OutOrStdout()
		f := &follower{c: c, query: query}
		found, err := f.next(ctx, limit)
		if err != nil {
			return err
		}
		if err := printEvents(w, output, found, execution == ""); err != nil || !follow {
			return err
		}
		// The Core is read to see that it is still there.
		_, _, err = rest.Poll(ctx, c, corePath(args[0]), func(*core) (bool, error) {
			found, err := f.next(ctx, limit)
			if err != nil {
				return false, lasting(err)
			}
			return false, printEvents(w, output, found, execution == "")
		})
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with the events to come")
	cmd.Flags().StringVar(&execution, "execution", "", "only events of this execution")
	cmd.Flags().IntVar(&limit, "limit", limit, "how many of the newest events to list first")
	_ = cmd.RegisterFlagCompletionFunc("execution", completeExecutions)
	return cmd
}

// lasting is an error that trying again does not mend; nil: it may.
func lasting(err error) error {
	if rest.Final(err) {
		return err
	}
	return nil
}

func printEvents(w io.Writer, output string, found []event, several bool) error {
	var b strings.Builder
	for i := range found {
		if output == "table" {
			b.WriteString(found[i].line(several))
		} else if err := render.Line(&b, output, found[i].raw); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
