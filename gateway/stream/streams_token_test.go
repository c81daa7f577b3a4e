package stream_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
)

// A stream ends with the token of its reader, whether the job prints or not, and whether the reader reads or not.
func TestLogs_endWithTheToken(t *testing.T) {
	silent := func(_ *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
		if err := s.Send(&v1.StreamJobLogsResponse{Entries: []*v1.LogEntry{gatewaytest.Entry(1)}}); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	}
	busy := func(_ *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
		for n := 1; ; n++ {
			if err := s.Send(&v1.StreamJobLogsResponse{Entries: []*v1.LogEntry{gatewaytest.Entry(n)}}); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	}
	revoked := func() (any, error) { return nil, grpcstatus.Error(codes.NotFound, "revoked") }
	robbed := func() (any, error) {
		return &v1.VerifyTokenResponse{Token: &v1.Token{TenantId: "acme", UserId: "ann", Permissions: []string{auth.PermissionManage}}}, nil
	}
	for name, tc := range map[string]struct {
		logs   func(*v1.StreamJobLogsRequest, grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error
		then   func() (any, error)
		code   string
		unread bool
	}{
		"a silent job":                   {silent, revoked, "AUTH_TOKEN_INVALID", false},
		"a job that prints all the time": {busy, revoked, "AUTH_TOKEN_INVALID", false},
		"a reader who does not read":     {busy, revoked, "", true},
		"a permission less":              {silent, robbed, "AUTHZ_PERMISSION_DENIED", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := gatewaytest.NewCoordinator(t)
				var good atomic.Bool
				good.Store(true)
				c.On("VerifyToken", func(context.Context, any) (any, error) {
					if !good.Load() {
						return tc.then()
					}
					return &v1.VerifyTokenResponse{Token: &v1.Token{TenantId: "acme", UserId: "ann", Permissions: auth.AllPermissions}}, nil
				})
				gone := make(chan struct{})
				c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
					defer close(gone)
					return tc.logs(r, s)
				}
				next, resp := gatewaytest.Run(t, gatewaytest.Config(c)).Stream("/jobs/job_1/logs", "Authorization", "Bearer "+auth.MintToken())
				require.Equal(t, 200, resp.StatusCode)
				gatewaytest.ExpectLines(t, next, 1, 1)
				time.Sleep(5 * time.Minute / 2)
				select {
				case <-gone:
					require.Fail(t, "the stream ended while its token was good")
				default:
				}
				good.Store(false)
				revokedAt := time.Now()
				if tc.unread {
					select {
					case <-gone:
					case <-time.After(10 * time.Minute):
						require.Fail(t, "the stream goes on")
					}
					return
				}
				last := next()
				for last.Name != "error" && last != (gatewaytest.Event{}) {
					require.Less(t, time.Since(revokedAt), 10*time.Minute, "the stream goes on")
					last = next()
				}
				var why struct{ Error, Code string }
				require.NoError(t, json.Unmarshal([]byte(last.Data), &why))
				require.Equal(t, "stream ended", why.Error)
				require.Equal(t, tc.code, why.Code)
				require.Equal(t, gatewaytest.Event{}, next())
				<-gone
			})
		})
	}
}

// While a token cannot be checked, streams continue: an election must not end all of them.
func TestLogs_goOnWhileTheTokenCannotBeLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		var away atomic.Bool
		c.On("VerifyToken", func(context.Context, any) (any, error) {
			if away.Load() {
				return nil, grpcstatus.Error(codes.Internal, "disk on fire")
			}
			return &v1.VerifyTokenResponse{Token: &v1.Token{TenantId: "acme", UserId: "ann", Permissions: auth.AllPermissions}}, nil
		})
		more := make(chan struct{})
		c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			if err := gatewaytest.Lines(r, s, 1); err != nil {
				return err
			}
			<-more
			r.Cursor = "1:0=1"
			return gatewaytest.Lines(r, s, 2)
		}
		next, _ := gatewaytest.Run(t, gatewaytest.Config(c)).Stream("/jobs/job_1/logs", "Authorization", "Bearer "+auth.MintToken())
		gatewaytest.ExpectLines(t, next, 1, 1)
		away.Store(true)
		time.Sleep(10 * time.Minute)
		close(more)
		gatewaytest.ExpectLines(t, next, 2, 2)
		require.True(t, strings.Contains(next().Data, "stream ended"))
	})
}
