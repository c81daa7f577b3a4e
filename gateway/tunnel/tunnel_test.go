package tunnel_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/tunnel"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

const shellPath = "/jobs/job_1/exec?tunnel=0123456789abcdef&rank=1&command=ls&command=-l&terminal=true&rows=24&columns=80&term=xterm"

// echoes is a coordinator whose tunnels answer the input as output.
func echoes(s v1.JobService_StreamJobTunnelServer) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	out := &v1.TunnelOutput{Ready: &v1.TunnelReady{NodeId: "n1", Attempt: 1}}
	for {
		if err := s.Send(&v1.StreamJobTunnelResponse{Output: out}); err != nil {
			return err
		}
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b := m.GetInput().GetBytes()
		if m.GetInput().GetHangUp() {
			return nil
		}
		out = &v1.TunnelOutput{Bytes: &v1.TunnelBytes{Channel: v1.TunnelChannel_STDOUT, Offset: b.GetOffset(), Data: b.GetData()}}
	}
}

// socket opens a WebSocket.
func socket(g *gatewaytest.Running, path string, headers ...string) (*websocket.Conn, *http.Response, error) {
	h := http.Header{"Authorization": {"Bearer " + gatewaytest.TokenAll}}
	for i := 0; i < len(headers); i += 2 {
		if h.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			h.Del(headers[i])
		}
	}
	conn, resp, err := websocket.Dial(context.Background(), "http://gateway"+rest.Prefix+path, &websocket.DialOptions{
		HTTPClient: g.Caller, HTTPHeader: h, Subprotocols: []string{tunnel.Subprotocol},
	})
	if err == nil {
		g.T.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, resp, err
}

func said(t *testing.T, conn *websocket.Conn) (*v1.TunnelOutput, error) {
	kind, data, err := conn.Read(context.Background())
	require.NoError(t, err)
	return tunnel.ParseOutput(kind == websocket.MessageText, data)
}

func TestTunnel_relaysBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		opened := make(chan *v1.StreamJobTunnelRequest, 1)
		c.Tunnel = func(s v1.JobService_StreamJobTunnelServer) error {
			return echoes(&firstSeen{s, opened})
		}
		conn, _, err := socket(gatewaytest.Run(t, gatewaytest.Config(c)), shellPath)
		require.NoError(t, err)
		require.Equal(t, tunnel.Subprotocol, conn.Subprotocol())
		want := &v1.TunnelOpening{TunnelId: "0123456789abcdef", JobId: "job_1", Rank: 1, Shell: &v1.TunnelShell{
			Command: []string{"ls", "-l"}, Terminal: true, Size: &v1.TunnelSize{Rows: 24, Columns: 80}, Term: "xterm",
		}}
		got := (<-opened).GetOpening()
		require.True(t, proto.Equal(want, got), "%v", got)
		out, err := said(t, conn)
		require.NoError(t, err)
		require.Equal(t, "n1", out.GetReady().GetNodeId())
		data := make([]byte, 200<<10)
		data[7] = 0xff
		require.NoError(t, conn.Write(t.Context(), websocket.MessageBinary, tunnel.Bytes(&v1.TunnelBytes{Offset: 5, Data: data})))
		conn.SetReadLimit(tunnel.MaxMessage + 1024)
		out, err = said(t, conn)
		require.NoError(t, err)
		require.Equal(t, data, out.GetBytes().GetData())
		require.EqualValues(t, 5, out.GetBytes().GetOffset())
		require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(`{"hang_up":true}`)))
		_, _, err = conn.Read(t.Context())
		require.Equal(t, websocket.StatusNormalClosure, websocket.CloseStatus(err))
	})
}

// firstSeen passes on the first message to a test.
type firstSeen struct {
	v1.JobService_StreamJobTunnelServer
	first chan<- *v1.StreamJobTunnelRequest
}

func (f *firstSeen) Recv() (*v1.StreamJobTunnelRequest, error) {
	m, err := f.JobService_StreamJobTunnelServer.Recv()
	if m.GetOpening() != nil {
		f.first <- m
	}
	return m, err
}

func TestTunnel_errors(t *testing.T) {
	for code, want := range map[codes.Code]int{codes.NotFound: 404, codes.FailedPrecondition: 409, codes.ResourceExhausted: 429, codes.Internal: 500} {
		c := gatewaytest.NewCoordinator(t)
		c.Tunnel = func(s v1.JobService_StreamJobTunnelServer) error {
			_, _ = s.Recv()
			return grpcstatus.Error(code, "secret of the inside")
		}
		_, resp, err := socket(gatewaytest.Run(t, gatewaytest.Config(c)), shellPath)
		require.Error(t, err)
		require.Equal(t, want, resp.StatusCode)
		text, _ := io.ReadAll(resp.Body)
		require.Equal(t, code != codes.Internal, strings.Contains(string(text), "secret of the inside"), "%s", text)
	}
	c := gatewaytest.NewCoordinator(t)
	c.Tunnel = func(s v1.JobService_StreamJobTunnelServer) error {
		_, _ = s.Recv()
		_ = s.Send(&v1.StreamJobTunnelResponse{Output: &v1.TunnelOutput{Ready: &v1.TunnelReady{}}})
		return grpcstatus.Error(codes.Internal, "secret of the inside")
	}
	conn, _, err := socket(gatewaytest.Run(t, gatewaytest.Config(c)), shellPath)
	require.NoError(t, err)
	_, err = said(t, conn)
	require.NoError(t, err)
	_, err = said(t, conn)
	var told *tunnel.Error
	require.ErrorAs(t, err, &told)
	require.Equal(t, "INTERNAL", told.Code)
	require.NotContains(t, told.Message, "inside")
}

func TestTunnel_whoMayOpenOne(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	var opened atomic.Int64
	c.Tunnel = func(s v1.JobService_StreamJobTunnelServer) error {
		opened.Add(1)
		return echoes(s)
	}
	g := gatewaytest.Run(t, gatewaytest.Config(c))
	for name, tc := range map[string]struct {
		path    string
		headers []string
		code    int
	}{
		"no token":               {shellPath, []string{"Authorization", ""}, 401},
		"a viewer":               {shellPath, []string{"Authorization", "Bearer " + gatewaytest.TokenViewer}, 403},
		"a page of another site": {shellPath, []string{"Origin", "https://evil.example"}, 403},
		"a ticket":               {shellPath + "&ticket=sst_x", nil, 401},
		"no name":                {"/jobs/job_1/exec", nil, 422},
		"a bad number":           {shellPath + "&resume=true&attempt=x", nil, 422},
		"an unknown parameter":   {shellPath + "&user=root", nil, 422},
	} {
		_, resp, err := socket(g, tc.path, tc.headers...)
		require.Error(t, err, name)
		require.Equal(t, tc.code, resp.StatusCode, name)
	}
	resp, err := g.Request(t.Context(), "GET", rest.Prefix+shellPath, "")
	require.NoError(t, err)
	_ = resp.Body.Close()
	require.Equal(t, 400, resp.StatusCode, "no WebSocket")
	require.Zero(t, opened.Load())
	_, _, err = socket(g, shellPath, "Origin", "http://gateway")
	require.NoError(t, err)
}

func TestTunnel_endsWithTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		var good atomic.Bool
		good.Store(true)
		c.On("VerifyToken", func(context.Context, any) (any, error) {
			if !good.Load() {
				return nil, grpcstatus.Error(codes.NotFound, "revoked")
			}
			return &v1.VerifyTokenResponse{Token: &v1.Token{TenantId: "acme", UserId: "ann", Permissions: auth.AllPermissions}}, nil
		})
		gone := make(chan struct{})
		c.Tunnel = func(s v1.JobService_StreamJobTunnelServer) error {
			defer close(gone)
			return echoes(s)
		}
		conn, _, err := socket(gatewaytest.Run(t, gatewaytest.Config(c)), shellPath, "Authorization", "Bearer "+auth.MintToken())
		require.NoError(t, err)
		_, err = said(t, conn)
		require.NoError(t, err)
		good.Store(false)
		_, err = said(t, conn)
		var told *tunnel.Error
		require.ErrorAs(t, err, &told)
		require.Equal(t, "AUTH_TOKEN_INVALID", told.Code)
		_, _, err = conn.Read(t.Context())
		require.Error(t, err)
		<-gone
	})
}

func TestTunnel_endsWithItsGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		c.Tunnel = echoes
		g := gatewaytest.Run(t, gatewaytest.Config(c))
		conn, _, err := socket(g, shellPath)
		require.NoError(t, err)
		_, err = said(t, conn)
		require.NoError(t, err)
		g.Stop()
		_, err = said(t, conn)
		var told *tunnel.Error
		require.ErrorAs(t, err, &told)
		require.Equal(t, "UNAVAILABLE", told.Code, "the client tries again")
	})
}
