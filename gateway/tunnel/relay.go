// Package tunnel relays the WebSocket of a client and the stream of a coordinator to each other.
//
// Guarantees: the last message of a connection that ends with an error says why. A client that does not read, and one whose
// network is gone, is noticed. Not guaranteed: anything about the tunnel, which lives at an agent; the client resumes it.
package tunnel

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/tunnel"
)

// Stream is the stream of a coordinator.
type Stream = grpc.BidiStreamingClient[v1.StreamJobTunnelRequest, v1.StreamJobTunnelResponse]

// lastWords limits the time to tell a client why its connection ends.
const lastWords = 5 * time.Second

// Config has the settings of a relay.
type Config struct {
	// End ends the stream of the coordinator.
	End context.CancelFunc
	// Keepalive is how often the client is probed.
	Keepalive time.Duration
	// Explain says why a connection ends, for the client: from an error of the stream, or the cause of the end of the context.
	Explain func(err error) *tunnel.Error
}

// Relay relays until either end has enough, or ctx ends. first is the first answer of the coordinator. It closes both ends.
func Relay(ctx context.Context, conn *websocket.Conn, stream Stream, first *v1.TunnelOutput, config Config) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(ctx, config.End)()
	conn.SetReadLimit(tunnel.MaxMessage + 1024)
	// The end of the context of a read closes the connection, so that nothing more could be said.
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := up(reading, conn, stream); err != nil {
			cancel(err)
		}
	})
	parts.Go(func() { probe(ctx, conn, config.Keepalive, cancel) })
	why := down(ctx, conn, stream, first)
	if cause := context.Cause(ctx); cause != nil {
		why = cause
	}
	cancel(errLeft)
	switch {
	case why == nil:
		_ = conn.Close(websocket.StatusNormalClosure, "")
	case errors.Is(why, errLeft):
		_ = conn.CloseNow()
	default:
		leave(conn, config.Explain(why))
	}
	stop()
	parts.Wait()
	config.End()
}

// errLeft is the end of a connection by the client.
var errLeft = errors.New("the client has left")

// up passes on what the client sends.
func up(ctx context.Context, conn *websocket.Conn, stream Stream) error {
	for {
		kind, data, err := conn.Read(ctx)
		if err != nil {
			return errLeft
		}
		in, err := tunnel.ParseInput(kind == websocket.MessageText, data)
		if err != nil {
			return &tunnel.Error{Code: "INVALID_ARGUMENT", Message: err.Error()}
		}
		if stream.Send(&v1.StreamJobTunnelRequest{Input: in}) != nil {
			return nil // receiving says why
		}
	}
}

// probe finds out whether the client is still there.
func probe(ctx context.Context, conn *websocket.Conn, every time.Duration, gone context.CancelCauseFunc) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		// The end of ctx must not close the connection: there is something to say then.
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), every)
		err := conn.Ping(within)
		cancel()
		if err != nil {
			gone(errLeft)
			return
		}
	}
}

// down passes on what the task says.
func down(ctx context.Context, conn *websocket.Conn, stream Stream, out *v1.TunnelOutput) error {
	for {
		text, data, err := tunnel.Output(out)
		if err != nil {
			return err
		}
		kind := websocket.MessageBinary
		if text {
			kind = websocket.MessageText
		}
		if err := conn.Write(ctx, kind, data); err != nil {
			return errLeft
		}
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		out = m.GetOutput()
	}
}

// leave ends the connection, and says why.
func leave(conn *websocket.Conn, why *tunnel.Error) {
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	if conn.Write(ctx, websocket.MessageText, tunnel.Failure(why)) != nil {
		_ = conn.CloseNow()
		return
	}
	_ = conn.Close(websocket.StatusInternalError, why.Code)
}
