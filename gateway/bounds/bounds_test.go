package bounds

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestStreams(t *testing.T) {
	s := NewStreams(2)
	first, err := s.Open("a")
	require.NoError(t, err)
	_, err = s.Open("a")
	require.NoError(t, err)
	_, err = s.Open("a")
	require.ErrorContains(t, err, "has 2 open streams")
	require.ErrorContains(t, err, "max_streams_per_tenant")
	other, err := s.Open("b")
	require.NoError(t, err, "tenants do not share a bound")
	other()
	first()
	first()
	_, err = s.Open("a")
	require.NoError(t, err, "one was closed")
	_, err = s.Open("a")
	require.Error(t, err, "a stream that is closed twice counts once")
	require.Len(t, s.open, 1, "tenants without streams are forgotten")
}

func TestStreams_unlimited(t *testing.T) {
	s := NewStreams(Unlimited)
	for range 1000 {
		_, err := s.Open("a")
		require.NoError(t, err)
	}
}

func TestLimits(t *testing.T) {
	require.Equal(t, Limits{10_000, 100}, Limits{}.WithDefaults())
	require.NoError(t, Limits{Unlimited, Unlimited}.Validate())
	require.ErrorContains(t, Limits{Connections: -2}.Validate(), "max_connections is -2")
	require.ErrorContains(t, Limits{Streams: -7}.Validate(), "max_streams_per_tenant is -7")
}

// log collects the lines of a log.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), "\n")
}

// serve runs an HTTP server behind a limited listener.
func serve(t *testing.T, most int) (addr string, registry *prometheus.Registry, lines *log) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	lines, registry = &log{}, prometheus.NewRegistry()
	listener := Listen(inner, Config{Most: most, Log: slog.New(slog.NewTextHandler(lines, nil)), Registry: registry})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello") })}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return inner.Addr().String(), registry, lines
}

// ask opens a connection and asks on it. The connection stays open.
func ask(t *testing.T, addr string) (net.Conn, *http.Response) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: gateway\r\n\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	return conn, resp
}

func value(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.Fail(t, "no metric "+name)
	return 0
}

func TestListen_refusesWhatIsTooMuch(t *testing.T) {
	addr, registry, lines := serve(t, 2)
	first, resp := ask(t, addr)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	_, resp = ask(t, addr)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	for range 3 {
		_, resp = ask(t, addr)
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.Equal(t, "1", resp.Header.Get("Retry-After"))
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), `"code":"UNAVAILABLE","message":"this gateway has 2 open connections`)
	}
	require.Equal(t, 2.0, value(t, registry, "mind_gateway_connections"))
	require.Equal(t, 3.0, value(t, registry, "mind_gateway_connections_refused_total"))
	require.Equal(t, 1, lines.lines(), "refusals of a period are one line")
	require.NoError(t, first.Close())
	// The server notices the end of a connection by itself.
	require.Eventually(t, func() bool {
		_, resp := ask(t, addr)
		return resp.StatusCode == http.StatusOK
	}, 10e9, 1e6)
}

func TestListen_unlimited(t *testing.T) {
	addr, _, lines := serve(t, Unlimited)
	for range 20 {
		_, resp := ask(t, addr)
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	require.Zero(t, lines.lines())
}

// A caller that speaks TLS could not read the answer.
func TestListen_encrypted(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener := Listen(inner, Config{Most: 0, Encrypted: true, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := listener.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
	}()
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", inner.Addr().String())
	require.NoError(t, err)
	n, err := conn.Read(make([]byte, 1))
	require.Zero(t, n)
	require.Error(t, err)
	require.NoError(t, listener.Close())
	<-done
}
