package gatewaytest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// Pipes is a listener with connections in memory, so that whole streams run in virtual time.
type Pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// NewPipes returns a listener.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

// Accept implements net.Listener.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr implements net.Listener.
func (p *Pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// Dial connects to the listener, whatever the address.
func (p *Pipes) Dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.done:
		return nil, errors.New("connection refused")
	}
}

// Running is a gateway under gateway.Run, and a caller of it.
type Running struct {
	T      *testing.T
	Caller *http.Client
	Stop   context.CancelFunc
	Ended  chan error
}

// Run runs a gateway, which ends with the test.
func Run(t *testing.T, config gateway.Config) *Running {
	lis := NewPipes()
	config.Listener = lis
	ctx, cancel := context.WithCancel(context.Background())
	transport := &http.Transport{DialContext: lis.Dial, DisableCompression: true}
	g := &Running{T: t, Caller: &http.Client{Transport: transport}, Stop: cancel, Ended: make(chan error, 1)}
	go func() { g.Ended <- gateway.Run(ctx, config) }()
	t.Cleanup(func() {
		cancel()
		transport.CloseIdleConnections()
		<-g.Ended
	})
	return g
}

// Request sends a request with all permissions; headers are as for Gate.Do.
func (g *Running) Request(ctx context.Context, method, path, body string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://gateway"+path, strings.NewReader(body))
	require.NoError(g.T, err)
	r.Header.Set("Authorization", "Bearer "+TokenAll)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		if r.Header.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	return g.Caller.Do(r)
}

// Event is a server-sent event, or a comment.
type Event struct{ ID, Name, Data, Comment string }

// Stream opens an event stream and returns a function that reads the next event; an empty event is the end.
func (g *Running) Stream(path string, headers ...string) (next func() Event, resp *http.Response) {
	g.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := g.Request(ctx, "GET", rest.Prefix+path, "", headers...)
	require.NoError(g.T, err)
	g.T.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
	})
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return func() (e Event) {
		for lines.Scan() {
			switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
			case "":
				if value != "" {
					e.Comment = value
				}
				if e != (Event{}) {
					return e
				}
			case "id":
				e.ID = value
			case "event":
				e.Name = value
			case "data":
				e.Data = value
			}
		}
		return Event{}
	}, resp
}

// Entry returns a line of a log.
func Entry(n int) *v1.LogEntry {
	return &v1.LogEntry{
		Level: "INFO", Message: fmt.Sprint("line ", n), Cursor: fmt.Sprint("1:0=", n), Rank: 0, Stream: "stdout", Attempt: 1,
		Timestamp: timestamppb.New(time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)),
	}
}

// Lines sends entries, one per message, from the cursor up to last.
func Lines(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse], last int) error {
	from := 0
	if r.Cursor != "" {
		_, _ = fmt.Sscanf(r.Cursor, "1:0=%d", &from)
	}
	for n := from + 1; n <= last; n++ {
		if err := s.Send(&v1.StreamJobLogsResponse{Entries: []*v1.LogEntry{Entry(n)}}); err != nil {
			return err
		}
	}
	return nil
}

// StreamEnded is the data of the last event of a stream that was sent completely.
const StreamEnded = `{"error":"stream ended"}`

// ExpectLines reads lines from..to, each once and in order.
func ExpectLines(t *testing.T, next func() Event, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		e := next()
		for e.Comment != "" {
			e = next()
		}
		require.Equal(t, "log", e.Name, "%+v", e)
		require.Equal(t, fmt.Sprint("1:0=", n), e.ID)
		require.JSONEq(t, fmt.Sprintf(
			`{"level":"INFO","message":"line %d","timestamp":"2026-01-31T08:00:00Z","rank":0,"stream":"stdout","attempt":1}`, n), e.Data)
	}
}
