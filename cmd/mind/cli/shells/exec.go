package shells

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	wire "github.com/mindcoordinator/mind/api/tunnel"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/jobs"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/tunnel"
)

func newExec() *cobra.Command {
	var rank int
	var noTerminal bool
	cmd := rest.Command(&cobra.Command{
		Use:   "exec JOB [-- COMMAND [ARGS...]]",
		Short: "Open a shell in a running job",
		Long: `Starts a command (default: sh) beside the process of a running job: on its node, with its environment and in its directory. It
ends with the job. With a terminal, it gets one, too. Its exit code is that of this command.

If a connection breaks, because a gateway or a coordinator has died, it is made again, and nothing is lost. ~. at the beginning of
a line leaves, and ends the command. The audit log says which commands were started by which user.`,
		Example: `  mind exec job_1a2b
  mind exec job_1a2b -- nvidia-smi
  mind exec job_1a2b --rank 3 -- bash -l
  mind exec job_1a2b -- tar c logs > logs.tar`,
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: jobs.CompleteJobs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, _ string, args []string) error {
		if len(args) > 1 && cmd.ArgsLenAtDash() != 1 {
			return exit.Misuse(errors.New("write -- between the job and the command"))
		}
		if rank < 0 {
			return exit.Misuse(fmt.Errorf("--rank %d: it must not be negative", rank))
		}
		s := shell{client: c, job: args[0], query: url.Values{"command": args[1:], "rank": {strconv.Itoa(rank)}}}
		in := cmd.InOrStdin()
		if stdin, ok := in.(*os.File); ok && !noTerminal && term.IsTerminal(int(stdin.Fd())) {
			return s.withTerminal(ctx, cmd, stdin)
		}
		return s.run(ctx, in, cmd.OutOrStdout(), cmd.ErrOrStderr(), nil, nil)
	})
	cmd.Flags().IntVar(&rank, "rank", 0, "the rank in whose node and environment the command runs")
	cmd.Flags().BoolVarP(&noTerminal, "no-tty", "T", false, "no terminal, although there is one here")
	return cmd
}

// shell is a command that is run in a job.
type shell struct {
	client *rest.Client
	job    string
	query  url.Values
}

// withTerminal runs the command with the terminal of this process, which sends every key while it lasts.
func (s *shell) withTerminal(ctx context.Context, cmd *cobra.Command, terminal *os.File) error {
	fd := int(terminal.Fd())
	s.query.Set("terminal", "true")
	s.query.Set("term", os.Getenv("TERM"))
	if columns, rows, err := term.GetSize(fd); err == nil {
		s.query.Set("columns", strconv.Itoa(columns))
		s.query.Set("rows", strconv.Itoa(rows))
	}
	before, err := term.MakeRaw(fd)
	if err != nil {
		return fmt.Errorf("use the terminal: %w", err)
	}
	defer func() { _ = term.Restore(fd, before) }()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	sizes, watched := make(chan *v1.TunnelSize), make(chan struct{})
	watching, stop := context.WithCancel(ctx)
	go func() {
		defer close(watched)
		watchSize(watching, fd, resized, sizes)
	}()
	defer func() {
		signal.Stop(resized)
		stop()
		<-watched
	}()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	in := &tunnel.Escape{From: terminal, Leave: func() { leave(errLeft) }}
	err = s.run(ctx, in, cmd.OutOrStdout(), cmd.ErrOrStderr(), sizes, func(text string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "\r\nmind: %s\r\n", text)
	})
	if errors.Is(context.Cause(ctx), errLeft) {
		_ = term.Restore(fd, before)
		return exit.Interrupted("left; the command in the job ends")
	}
	return err
}

var errLeft = errors.New("the user has left")

// watchSize tells the size of a terminal when it has changed.
func watchSize(ctx context.Context, fd int, resized <-chan os.Signal, sizes chan<- *v1.TunnelSize) {
	for {
		select {
		case <-resized:
		case <-ctx.Done():
			return
		}
		columns, rows, err := term.GetSize(fd)
		if err != nil {
			continue
		}
		select {
		case sizes <- &v1.TunnelSize{Rows: uint32(rows), Columns: uint32(columns)}:
		case <-ctx.Done():
			return
		}
	}
}

func (s *shell) run(ctx context.Context, in io.Reader, out, errs io.Writer, sizes <-chan *v1.TunnelSize, notice func(string)) error {
	t := &tunnel.Tunnel{
		Dial: func(ctx context.Context, query url.Values) (*websocket.Conn, error) {
			return s.client.Socket(ctx, "/jobs/"+url.PathEscape(s.job)+"/exec", query, wire.Subprotocol)
		},
		Final: rest.Final, Busy: rest.Busy, Query: s.query, In: in, Out: out, Err: errs, Sizes: sizes, Notice: notice,
	}
	end, err := t.Run(ctx)
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Interrupted("interrupted; the command in the job ends")
	case errors.Is(err, tunnel.ErrLost):
		return exit.With(exit.NoResult, err)
	case err != nil:
		return err
	case end.GetMessage() != "":
		return exit.With(exit.NoResult, errors.New(end.GetMessage()))
	case end.GetExitCode() != 0:
		return exit.With(int(end.GetExitCode()), nil)
	}
	return nil
}
