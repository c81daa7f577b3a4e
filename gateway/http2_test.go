package gateway

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
	"github.com/mindcoordinator/mind/pki"
)

// runHTTP2 is runGateway with a caller that speaks HTTP/2 without TLS, and counts its connections.
func runHTTP2(t *testing.T, config Config) (*running, *atomic.Int32) {
	g := runGateway(t, config)
	transport, ok := g.caller.Transport.(*http.Transport)
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
		c := newScripted(t)
		later := make(chan struct{})
		c.logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			_ = lines(r, s, 1)
			select {
			case <-later:
				r.Cursor = "1:0=1"
				return lines(r, s, 2)
			case <-s.Context().Done():
				return s.Context().Err()
			}
		}
		g, dials := runHTTP2(t, testConfig(c))
		const streams = 40
		nexts := make([]func() event, streams)
		for i := range nexts {
			next, resp := g.stream("/jobs/job_1/logs?rank=" + string(rune('0'+i%10)))
			require.Equal(t, 2, resp.ProtoMajor)
			expectLines(t, next, 1, 1)
			nexts[i] = next
		}
		me, err := g.request(context.Background(), "GET", "/v1/me", "")
		require.NoError(t, err)
		require.NoError(t, me.Body.Close())
		require.Equal(t, 200, me.StatusCode)
		for range 80 { // 20 minutes
			require.Equal(t, event{comment: "keepalive"}, nexts[0]())
		}
		close(later)
		for i, next := range nexts {
			for e := next(); e.id == "" || e.name != "log"; e = next() {
				require.Equal(t, "keepalive", e.comment, "stream %d", i)
			}
		}
		require.EqualValues(t, 1, dials.Load())
	})
}

// At shutdown, streams of HTTP/2 end as others do, and Run returns.
func TestHTTP2_drains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		c.logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			_ = lines(r, s, 1)
			<-s.Context().Done()
			return s.Context().Err()
		}
		g, _ := runHTTP2(t, testConfig(c))
		next, _ := g.stream("/jobs/job_1/logs")
		expectLines(t, next, 1, 1)
		g.stop()
		require.Equal(t, event{comment: "this gateway is shutting down"}, next())
		require.Equal(t, event{}, next())
		err := <-g.ended
		g.ended <- err
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
	config := testConfig(newScripted(t))
	config.HTTPCertFile, config.HTTPKeyFile = files.Cert, files.Key
	config.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, config) }()
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
		p := protocols(&net.TCPAddr{IP: net.ParseIP(ip)})
		require.Equal(t, want, p.UnencryptedHTTP2(), ip)
		require.True(t, p.HTTP1() && p.HTTP2(), ip)
	}
}
