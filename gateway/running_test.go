package gateway

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
)

// pipes is a listener with connections in memory, so that whole streams run in virtual time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.done:
		return nil, errors.New("connection refused")
	}
}

// running is a gateway under Run, and a caller of it.
type running struct {
	t      *testing.T
	caller *http.Client
	stop   context.CancelFunc
	ended  chan error
}

func runGateway(t *testing.T, config Config) *running {
	lis := newPipes()
	config.Listener = lis
	ctx, cancel := context.WithCancel(context.Background())
	transport := &http.Transport{DialContext: lis.dial, DisableCompression: true}
	g := &running{t: t, caller: &http.Client{Transport: transport}, stop: cancel, ended: make(chan error, 1)}
	go func() { g.ended <- Run(ctx, config) }()
	t.Cleanup(func() {
		cancel()
		transport.CloseIdleConnections()
		<-g.ended
	})
	return g
}

func (g *running) request(ctx context.Context, method, path, body string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://gateway"+path, strings.NewReader(body))
	require.NoError(g.t, err)
	r.Header.Set("Authorization", "Bearer "+tokenAll)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		if r.Header.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	return g.caller.Do(r)
}

// event is one server-sent event, or a comment.
type event struct{ id, name, data, comment string }

// stream opens an event stream and returns a function that reads the next event; an empty event is the end.
func (g *running) stream(path string, headers ...string) (next func() event, resp *http.Response) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := g.request(ctx, "GET", prefix+path, "", headers...)
	require.NoError(g.t, err)
	g.t.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
	})
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return func() (e event) {
		for lines.Scan() {
			switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
			case "":
				if value != "" {
					e.comment = value
				}
				if e != (event{}) {
					return e
				}
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = value
			}
		}
		return event{}
	}, resp
}

func entry(n int) *v1.LogEntry {
	return &v1.LogEntry{
		Level: "INFO", Message: fmt.Sprint("line ", n), Cursor: fmt.Sprint("1:0=", n), Rank: 0, Stream: "stdout", Attempt: 1,
		Timestamp: timestamppb.New(time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)),
	}
}

// lines sends entries, one per message, from the cursor up to last.
func lines(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse], last int) error {
	from := 0
	if r.Cursor != "" {
		_, _ = fmt.Sscanf(r.Cursor, "1:0=%d", &from)
	}
	for n := from + 1; n <= last; n++ {
		if err := s.Send(&v1.StreamJobLogsResponse{Entries: []*v1.LogEntry{entry(n)}}); err != nil {
			return err
		}
	}
	return nil
}

const streamEnded = `{"error":"stream ended"}`

// expectLines reads lines from..to, each once and in order.
func expectLines(t *testing.T, next func() event, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		e := next()
		for e.comment != "" {
			e = next()
		}
		require.Equal(t, "log", e.name, "%+v", e)
		require.Equal(t, fmt.Sprint("1:0=", n), e.id)
		require.JSONEq(t, fmt.Sprintf(
			`{"level":"INFO","message":"line %d","timestamp":"2026-01-31T08:00:00Z","rank":0,"stream":"stdout","attempt":1}`, n), e.data)
	}
}
