package shells

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"

	wire "github.com/mindcoordinator/mind/api/tunnel"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/jobs"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/tunnel"
)

func newPortForward() *cobra.Command {
	var rank int
	cmd := rest.Command(&cobra.Command{
		Use:   "port-forward JOB [LOCAL:]PORT",
		Short: "Make a port of a running job reachable here",
		Long: `Listens on a port of 127.0.0.1, and connects to a port on which a process of a running job listens: TensorBoard, a notebook, a
debugger. LOCAL is the port here (default: the same; 0: a free one). It ends with Ctrl-C, and goes on when a gateway or a
coordinator dies. The port must belong to the job; other ports of its node are not reached.`,
		Example: `  mind port-forward job_1a2b 6006
  mind port-forward job_1a2b 8080:6006
  mind port-forward job_1a2b --rank 3 5678`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: jobs.CompleteJobs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, _ string, args []string) error {
		local, port, err := ports(args[1])
		if err != nil {
			return exit.Misuse(err)
		}
		if rank < 0 {
			return exit.Misuse(fmt.Errorf("--rank %d: it must not be negative", rank))
		}
		if _, err := c.Get(ctx, "/jobs/"+url.PathEscape(args[0]), nil, nil); err != nil {
			return err
		}
		f := forward{client: c, job: args[0], query: url.Values{"port": {port}, "rank": {strconv.Itoa(rank)}}, complaints: cmd.ErrOrStderr()}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", local))
		if err != nil {
			return fmt.Errorf("listen here: %w: name another port, such as 0:%s", err, port)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s reaches port %s of %s\n", listener.Addr(), port, args[0])
		return f.serve(ctx, listener)
	})
	cmd.Flags().IntVar(&rank, "rank", 0, "the rank whose port is reached")
	return cmd
}

// ports reads [LOCAL:]PORT.
func ports(text string) (local, port string, err error) {
	local, port, two := strings.Cut(text, ":")
	if !two {
		port = local
	}
	for _, part := range []struct {
		text  string
		least int
	}{{local, 0}, {port, 1}} {
		if n, err := strconv.Atoi(part.text); err != nil || n < part.least || n > 65535 {
			return "", "", fmt.Errorf("%q is no port: write PORT, or LOCAL:PORT", text)
		}
	}
	return local, port, nil
}

// forward makes a port of a job reachable.
type forward struct {
	client *rest.Client
	job    string
	query  url.Values

	mu         sync.Mutex
	complaints io.Writer
}

// serve takes connections until ctx ends.
func (f *forward) serve(ctx context.Context, listener net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	defer listener.Close()
	ctx, cancel := context.WithCancel(ctx)
	var open sync.WaitGroup
	defer open.Wait()
	defer cancel()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("take connections: %w", err)
		}
		open.Go(func() {
			defer conn.Close()
			// A program that does not read must not keep the command from ending.
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			f.connect(ctx, conn)
		})
	}
}

// connect carries one connection.
func (f *forward) connect(ctx context.Context, conn net.Conn) {
	t := &tunnel.Tunnel{
		Dial: func(ctx context.Context, query url.Values) (*websocket.Conn, error) {
			return f.client.Socket(ctx, "/jobs/"+url.PathEscape(f.job)+"/port-forward", query, wire.Subprotocol)
		},
		Final: rest.Final, Busy: rest.Busy, Query: f.query, In: conn, Out: conn, Err: io.Discard,
	}
	if _, err := t.Run(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, tunnel.ErrOutput) {
		f.mu.Lock()
		defer f.mu.Unlock()
		fmt.Fprintln(f.complaints, "mind: "+exit.OneLine(err))
	}
}
