package cores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

func newWatch() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "watch EXECUTION",
		Short: "Watch an execution until it is over",
		Long: `Shows the blocks of an execution as they run, what it waits for, since when and until when, and the command that answers a decision.
On a terminal the display is refreshed; elsewhere each step is a line, and with -o json each line is an event. It ends when the execution is
over, with the exit code 0 when it is completed and 1 when it failed or was canceled.`,
		Example: `  mind execution watch exec_1k0g00`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeExecutions,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		w := cmd.OutOrStdout()
		var show display = &lines{w: w, output: output, waits: newWaits(c), events: follower{c: c, query: url.Values{"execution_id": {args[0]}}}}
		if output == "table" && render.IsTerminal(w) {
			show = &screen{w: w, waits: newWaits(c)}
		}
		e, _, err := rest.Follow(ctx, c, executionPath(args[0]), "execution", args[0], func(e *execution) (bool, error) {
			err := show.update(ctx, e)
			return err == nil && e.over(), lastingOr(ctx, err)
		})
		switch {
		case errors.Is(err, context.Canceled):
			return exit.Interrupted("interrupted; the execution goes on")
		case err != nil:
			return err
		}
		return outcome(ctx, c, e)
	})
}

// lastingOr is an error that ends a watch: one of the writer, or one of the gateway that trying again does not mend.
func lastingOr(ctx context.Context, err error) error {
	var broken *writeError
	if errors.As(err, &broken) || ctx.Err() != nil {
		return err
	}
	if err != nil {
		return lasting(err)
	}
	return nil
}

// writeError is an error of the output.
type writeError struct{ error }

func (e *writeError) Unwrap() error { return e.error }

func write(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return &writeError{err}
	}
	return nil
}

// display shows an execution as it is now. The last update shows one that is over.
type display interface {
	update(ctx context.Context, e *execution) error
}

// screen draws an execution again and again on a terminal.
type screen struct {
	w     io.Writer
	waits *waits
	begun bool
}

func (s *screen) update(ctx context.Context, e *execution) error {
	var page bytes.Buffer
	if err := printExecution(ctx, &page, s.waits, e, render.Width(s.w)); err != nil {
		return err
	}
	start := "\x1b[H" // the corner
	if !s.begun {
		s.begun = true
		start = "\x1b[2J" + start // an empty screen
	}
	// The rest of each line is cleared after it, and everything below at the end.
	return write(s.w, start+strings.ReplaceAll(page.String(), "\n", "\x1b[K\n")+"\x1b[J")
}

// lines writes a line for each event, and for what is waited for.
type lines struct {
	w      io.Writer
	output string
	waits  *waits
	events follower
	// said are the waits that were named.
	said map[string]bool
}

// allEvents is how many events of the time before the watch are shown at most.
const allEvents = 10_000

func (l *lines) update(ctx context.Context, e *execution) error {
	// The execution was read before its events: all that led to its state is there.
	found, err := l.events.next(ctx, allEvents)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := printEvents(&b, l.output, found, false); err != nil {
		return err
	}
	if l.output == "table" && !e.over() {
		for i := range e.WaitingFor {
			a := &e.WaitingFor[i]
			key := fmt.Sprint(a.Step, a.Kind, a.ID, a.Until)
			if !l.said[key] {
				if l.said == nil {
					l.said = map[string]bool{}
				}
				l.said[key] = true
				b.WriteString("          " + render.Printable(l.waits.say(ctx, e, a)) + "\n")
			}
		}
	}
	return write(l.w, b.String())
}
