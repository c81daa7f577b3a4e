package tunnel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coder/websocket"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/tunnel"
)

// connection is one connection of a tunnel.
type connection struct {
	*Tunnel
	ws *websocket.Conn
	// acked is how much of stdout and stderr the agent was told to be written.
	acked [2]uint64
}

// farewell limits the time to take leave.
const farewell = 2 * time.Second

// serve serves the connection until it breaks, everything was said, or ctx ends.
func (c *connection) serve(ctx context.Context) (*v1.TunnelEnd, error) {
	c.acked = [2]uint64{c.outs[v1.TunnelChannel_STDOUT].done(), c.outs[v1.TunnelChannel_STDERR].done()}
	c.ws.SetReadLimit(tunnel.MaxMessage + 1024)
	// The end of the context of a read or a write closes the connection, so that the client could not hang up.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	defer func() {
		_ = c.ws.CloseNow()
		stop()
		parts.Wait()
	}()
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	broken := make(chan struct{}, 2)
	parts.Go(func() {
		c.send(life)
		broken <- struct{}{}
	})
	parts.Go(func() {
		c.probe(life)
		broken <- struct{}{}
	})
	var end *v1.TunnelEnd
	var err error
	var why error // it ends before the other end does
	done := make(chan struct{})
	parts.Go(func() {
		defer close(done)
		end, err = c.receive(life)
	})
	select {
	case <-done:
		if end != nil || errors.Is(err, ErrOutput) {
			c.hangUp(func(within context.Context) {
				for {
					if _, _, err := c.ws.Read(within); err != nil {
						return
					}
				}
			})
		}
		return end, err
	case <-broken:
		return nil, errBroke
	case failed := <-c.failed:
		why = fmt.Errorf("%w: %w", ErrOutput, failed)
	case <-ctx.Done():
		why = ctx.Err()
	}
	c.hangUp(func(within context.Context) {
		select {
		case <-done:
		case <-within.Done():
		}
	})
	return nil, why
}

// begin reads the first message.
func (c *connection) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keepalive)
	defer cancel()
	out, err := c.read(ctx)
	if err != nil {
		return err
	}
	if out.GetReady() == nil {
		return fmt.Errorf("%w: the gateway begins with another message than expected", errBroke)
	}
	c.ready = out.GetReady()
	c.input.took(c.ready.GetStdinReceived())
	return nil
}

func (c *connection) read(ctx context.Context) (*v1.TunnelOutput, error) {
	kind, data, err := c.ws.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroke, err)
	}
	return tunnel.ParseOutput(kind == websocket.MessageText, data)
}

// receive passes on the output until its end.
func (c *connection) receive(ctx context.Context) (*v1.TunnelEnd, error) {
	for {
		out, err := c.read(ctx)
		if err != nil {
			return nil, err
		}
		if bytes := out.GetBytes(); bytes != nil {
			if err := c.write(bytes); err != nil {
				return nil, err
			}
		}
		c.input.took(out.GetStdinReceived())
		if out.GetEnd() != nil {
			return out.GetEnd(), nil
		}
	}
}

// write passes on bytes of the output. After a connection that broke, some of them may be here already.
func (c *connection) write(bytes *v1.TunnelBytes) error {
	to := c.outs[bytes.GetChannel()]
	if to == nil {
		return fmt.Errorf("%w: there is no output %v", errBroke, bytes.GetChannel())
	}
	ok, err := to.take(bytes.GetOffset(), bytes.GetData(), bytes.GetEof())
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrOutput, err)
	case !ok:
		return fmt.Errorf("%w: bytes of %v before %d are missing, or there are too many", errBroke, bytes.GetChannel(), bytes.GetOffset())
	}
	return nil
}

// send sends input, sizes, and what was received.
func (c *connection) send(ctx context.Context) {
	at, toldEOF := uint64(0), false
	for {
		m := c.acknowledge()
		if m == nil {
			piece, more := c.input.after(at, toldEOF)
			if piece != nil {
				at, toldEOF = piece.GetOffset()+uint64(len(piece.GetData())), piece.GetEof()
				m = &v1.TunnelInput{Bytes: piece}
			} else if m = c.await(ctx, more); m == nil {
				if ctx.Err() != nil {
					return
				}
				continue
			}
		}
		if c.tell(ctx, m) != nil {
			return
		}
	}
}

// await waits until there may be something to send, and returns the new size of the terminal if it has one.
func (c *connection) await(ctx context.Context, more <-chan struct{}) *v1.TunnelInput {
	select {
	case <-more:
	case <-c.wrote:
	case size := <-c.Sizes:
		return &v1.TunnelInput{Size: size}
	case <-ctx.Done():
	}
	return nil
}

// acknowledge returns the message that says how much output is here; nil: there is no need yet.
func (c *connection) acknowledge() *v1.TunnelInput {
	stdout, stderr := c.outs[v1.TunnelChannel_STDOUT].done(), c.outs[v1.TunnelChannel_STDERR].done()
	if stdout-c.acked[0]+stderr-c.acked[1] < ackEvery {
		return nil
	}
	c.acked = [2]uint64{stdout, stderr}
	return &v1.TunnelInput{StdoutReceived: stdout, StderrReceived: stderr}
}

func (c *connection) tell(ctx context.Context, m *v1.TunnelInput) error {
	text, data, err := tunnel.Input(m)
	if err != nil {
		return err
	}
	kind := websocket.MessageBinary
	if text {
		kind = websocket.MessageText
	}
	return c.ws.Write(ctx, kind, data)
}

// hangUp tells the agent that nobody comes again, and waits until the other end closes the connection: if this end did, the message
// could be lost behind it.
func (c *connection) hangUp(closed func(within context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	if c.tell(ctx, &v1.TunnelInput{HangUp: true}) == nil {
		closed(ctx)
	}
}

// probe probes the connection until ctx ends, or the other end does not answer.
func (c *connection) probe(ctx context.Context) {
	tick := time.NewTicker(keepalive)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		within, cancel := context.WithTimeout(ctx, keepalive)
		err := c.ws.Ping(within)
		cancel()
		if err != nil {
			return
		}
	}
}
