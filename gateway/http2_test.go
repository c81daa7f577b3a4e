package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/pki"
)

// runHTTP2 is runGateway with a caller that speaks HTTP/2 without TLS, and counts its connections.
func runHTTP2(t *testing.T, config gateway.Config) (*gatewaytest.Running, *atomic.Int32) {
	g := gatewaytest.Run(t, config)
	transport, ok := g.Caller.Transport.(*http.Transport)
	require.True(t, ok)
	transport.Protocols = &http.Protocols{}
	transport.Protocols.SetUnencryptedHTTP2(true)
	dial, dials := transport.DialContext, &atomic.Int32{}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return dial(ctx, network, addr)
	}
	return g, dials
}

// One connection has many event streams, for longer than an ordinary request may take, and ordinary requests beside them.
func TestHTTP2_manyStreamsOfOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		later := make(chan struct{})
		c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			_ = gatewaytest.Lines(r, s, 1)
			select {
			case <-later:
				r.Cursor = "1:0=1"
				return gatewaytest.Lines(r, s, 2)
			case <-s.Context().Done():
				return s.Context().Err()
			}
		}
		g, dials := runHTTP2(t, gatewaytest.Config(c))
		const streams = 40
		nexts := make([]func() gatewaytest.Event, streams)
		for i := range nexts {
			next, resp := g.Stream("/jobs/job_1/logs?rank=" + string(rune('0'+i%10)))
			require.Equal(t, 2, resp.ProtoMajor)
			gatewaytest.ExpectLines(t, next, 1, 1)
			nexts[i] = next
		}
		me, err := g.Request(context.Background(), "GET", "/v1/me", "")
		require.NoError(t, err)
		require.NoError(t, me.Body.Close())
		require.Equal(t, 200, me.StatusCode)
		for range 80 { // 20 minutes
			require.Equal(t, gatewaytest.Event{Comment: "keepalive"}, nexts[0]())
		}
		close(later)
		for i, next := range nexts {
			for e := next(); e.ID == "" || e.Name != "log"; e = next() {
				require.Equal(t, "keepalive", e.Comment, "stream %d", i)
			}
		}
		require.EqualValues(t, 1, dials.Load())
	})
}

// At shutdown, streams of HTTP/2 end as others do, and Run returns.
func TestHTTP2_drains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			_ = gatewaytest.Lines(r, s, 1)
			<-s.Context().Done()
			return s.Context().Err()
		}
		g, _ := runHTTP2(t, gatewaytest.Config(c))
		next, _ := g.Stream("/jobs/job_1/logs")
		gatewaytest.ExpectLines(t, next, 1, 1)
		g.Stop()
		require.Equal(t, gatewaytest.Event{Comment: "this gateway is shutting down"}, next())
		require.Equal(t, gatewaytest.Event{}, next())
		err := <-g.Ended
		g.Ended <- err
		require.NoError(t, err)
	})
}

// Clients choose HTTP/2 while they set up TLS, or HTTP/1.1 if they know no other.
func TestHTTP2_isChosenByTLS(t *testing.T) {
	dir := t.TempDir()
	ca, err := pki.CreateCA(dir)
	require.NoError(t, err)
	files, err := ca.Issue(dir, "web", pki.RoleGateway)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	authority, err := pki.ReadCertificates(ca.CertFile)
	require.NoError(t, err)
	roots.AddCert(authority[0])
	config := gatewaytest.Config(gatewaytest.NewCoordinator(t))
	config.HTTPCertFile, config.HTTPKeyFile = files.Cert, files.Key
	config.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- gateway.Run(ctx, config) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()
	for _, major := range []int{1, 2} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, Protocols: &http.Protocols{}}
		transport.Protocols.SetHTTP1(major == 1)
		transport.Protocols.SetHTTP2(major == 2)
		resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Get("https://" + config.Listener.Addr().String() + "/health")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, major, resp.ProtoMajor)
		transport.CloseIdleConnections()
	}
}

// HTTP/2 without TLS is for this machine alone.
func TestHTTP2_withoutTLSIsForThisMachine(t *testing.T) {
	for ip, want := range map[string]bool{"127.0.0.1": true, "::1": true, "10.0.0.1": false, "::": false} {
		p := gateway.Protocols(&net.TCPAddr{IP: net.ParseIP(ip)})
		require.Equal(t, want, p.UnencryptedHTTP2(), ip)
		require.True(t, p.HTTP1() && p.HTTP2(), ip)
	}
}
