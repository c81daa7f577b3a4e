package tunnel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/tunnel"
	"github.com/mindcoordinator/mind/api/wait"
)

const (
	// patience is for how long a connection that broke is tried again: the agent keeps the tunnel that long.
	patience   = time.Minute
	firstPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
	// openPatience is for how long the first connection is tried while no coordinator answers.
	openPatience = 15 * time.Second
	// keepalive is how often a silent connection is probed.
	keepalive = 15 * time.Second
	// ackEvery is after how many bytes of output the agent is told that they are here.
	ackEvery = 128 << 10
)

// Tunnel is one tunnel.
type Tunnel struct {
	// Dial opens a connection to a gateway.
	Dial func(ctx context.Context, query url.Values) (*websocket.Conn, error)
	// Final reports whether trying again would get the same refusal, and Busy whether the gateway asks to try again.
	Final, Busy func(err error) bool
	// Query has the parameters of the opening.
	Query url.Values
	// In is the input; nil: it ends at once. Out and Err get the output.
	In       io.Reader
	Out, Err io.Writer
	// Sizes tells the sizes of the terminal; nil: there is none.
	Sizes <-chan *v1.TunnelSize
	// Notice, if set, tells the user what happens to the connection.
	Notice func(text string)

	input *input
	outs  map[v1.TunnelChannel_Value]*sink
	wrote chan struct{} // signalled when output was written
	// failed has why output could not be written.
	failed chan error
	ready  *v1.TunnelReady
}

// ErrLost is wrapped when the tunnel is gone: how its process ended is unknown.
var ErrLost = errors.New("the connection to the job was lost")

// Run runs the tunnel until the other end has ended or ctx ends, which ends the process of the tunnel.
func (t *Tunnel) Run(ctx context.Context) (*v1.TunnelEnd, error) {
	t.input = newInput(t.In)
	defer t.input.stop()
	t.outs, t.wrote = map[v1.TunnelChannel_Value]*sink{}, make(chan struct{}, 1)
	t.failed = make(chan error, 2) // one of each output
	for channel, to := range map[v1.TunnelChannel_Value]io.Writer{v1.TunnelChannel_STDOUT: t.Out, v1.TunnelChannel_STDERR: t.Err} {
		if to == nil {
			to = io.Discard
		}
		t.outs[channel] = newSink(to, func(err error) {
			if err != nil {
				t.failed <- err
			}
			select {
			case t.wrote <- struct{}{}:
			default:
			}
		})
		defer t.outs[channel].stop()
	}
	query := url.Values{"tunnel": {rand.Text()}}
	for name, values := range t.Query {
		query[name] = values
	}
	pauses := wait.Backoff{First: firstPause, Longest: mostPause}
	for since := time.Now(); ; {
		end, err := t.connect(ctx, query)
		switch {
		case end != nil:
			return end, t.flush(ctx)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, ErrOutput), t.final(err) && t.ready == nil:
			return nil, err
		case t.final(err):
			return nil, fmt.Errorf("%w: %w", ErrLost, err)
		case errors.Is(err, errBroke) && t.ready != nil:
			since = time.Now()
			pauses.Reset()
			if t.Notice != nil {
				t.Notice("the connection broke; it is made again")
			}
		case t.ready == nil && (!t.Busy(err) && !errors.Is(err, errBroke) || time.Since(since) > openPatience):
			return nil, err
		case time.Since(since) > patience:
			return nil, fmt.Errorf("%w, and could not be made again for %v: %w", ErrLost, patience, err)
		}
		wait.For(ctx, pauses.Next())
	}
}

// flush writes what is left of the output.
func (t *Tunnel) flush(ctx context.Context) error {
	for _, out := range t.outs {
		if err := out.flush(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrOutput, err)
		}
	}
	return ctx.Err()
}

func (t *Tunnel) final(err error) bool {
	var told *tunnel.Error
	if errors.As(err, &told) {
		switch told.Code {
		case "UNAVAILABLE", "NODE_UNAVAILABLE", "DEADLINE_EXCEEDED", "TIMEOUT", "INTERNAL":
			return false
		}
		return true
	}
	return t.Final(err)
}

var (
	// errBroke is wrapped when a connection ended that was open.
	errBroke = errors.New("the connection broke")
	// ErrOutput is wrapped when the output cannot be written.
	ErrOutput = errors.New("cannot write the output")
)

// connect makes one connection, and serves it until it breaks or everything was said.
func (t *Tunnel) connect(ctx context.Context, query url.Values) (*v1.TunnelEnd, error) {
	if t.ready != nil {
		query.Set("resume", "true")
		query.Set("attempt", strconv.Itoa(int(t.ready.GetAttempt())))
		query.Set("stdout_received", strconv.FormatUint(t.outs[v1.TunnelChannel_STDOUT].done(), 10))
		query.Set("stderr_received", strconv.FormatUint(t.outs[v1.TunnelChannel_STDERR].done(), 10))
	}
	dialing, cancel := context.WithTimeout(ctx, keepalive)
	defer cancel()
	ws, err := t.Dial(dialing, query)
	if err != nil {
		return nil, err
	}
	c := &connection{Tunnel: t, ws: ws}
	return c.serve(ctx)
}
