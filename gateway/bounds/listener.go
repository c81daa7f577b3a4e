package bounds

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// period is the time in which refusals make one line of the log.
	period = time.Minute
	// farewell limits how long a refused connection stays open to be told why, and farewells how many do at a time.
	farewell  = time.Second
	farewells = 64
)

// Config configures a listener.
type Config struct {
	// Most is the number of connections that may be open; negative: any.
	Most int
	// Encrypted: callers speak TLS, so a refused one cannot be told why.
	Encrypted bool
	Log       *slog.Logger
	Registry  *prometheus.Registry
}

// Listen limits the connections of a listener.
func Listen(listener net.Listener, cfg Config) net.Listener {
	l := &limited{Listener: listener, cfg: cfg, saying: make(chan struct{}, farewells)}
	cfg.Registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "mind_gateway_connections", Help: "Open connections of callers.",
		}, func() float64 { return float64(l.open.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "mind_gateway_connections_refused_total", Help: "Connections closed at once because max_connections were open.",
		}, func() float64 { return float64(l.refused.Load()) }),
	)
	return l
}

type limited struct {
	net.Listener
	cfg           Config
	open, refused atomic.Int64
	saying        chan struct{}
	said          sync.WaitGroup
	logged        time.Time // of the last line of the log; only Accept uses it
}

// Accept returns the next connection within the limit.
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if n := l.open.Add(1); l.cfg.Most < 0 || n <= int64(l.cfg.Most) {
			return &counted{Conn: conn, release: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		l.refuse(conn)
	}
}

// Close closes the listener, and returns when refused callers have been told.
func (l *limited) Close() error {
	err := l.Listener.Close()
	l.said.Wait()
	return err
}

func (l *limited) refuse(conn net.Conn) {
	refused := l.refused.Add(1)
	if now := time.Now(); now.Sub(l.logged) >= period {
		l.logged = now
		l.cfg.Log.Warn("connections are refused: as many as max_connections are open; raise it, or find the callers that open them",
			"max_connections", l.cfg.Most, "refused_so_far", refused, "from", conn.RemoteAddr().String())
	}
	if l.cfg.Encrypted {
		_ = conn.Close()
		return
	}
	select {
	case l.saying <- struct{}{}:
	default:
		_ = conn.Close()
		return
	}
	l.said.Go(func() {
		defer func() { <-l.saying }()
		defer conn.Close()
		tell(conn, l.cfg.Most)
	})
}

// tell answers whatever the caller is about to ask. The request is read, or the kernel would drop the answer with it.
func tell(conn net.Conn, most int) {
	_ = conn.SetDeadline(time.Now().Add(farewell))
	body := fmt.Sprintf(`{"status":"error","error":{"code":"UNAVAILABLE","message":"this gateway has %d open connections, which is its limit (max_connections); try again, or use another gateway","retry_after":1}}`+"\n", most)
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s", len(body), body); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1<<20))
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (c *counted) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// CloseWrite ends what is sent: the server ends a connection with it, so that the caller reads the last answer.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// ReadFrom sends what a reader has, by the kernel alone where it can.
func (c *counted) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }
