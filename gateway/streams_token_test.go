package gateway

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
)

// A stream ends with the token of its reader, whether the job prints or not, and whether the reader reads or not.
func TestLogs_endWithTheToken(t *testing.T) {
	silent := func(_ *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
		if err := s.Send(&v1.StreamJobLogsResponse{Entries: []*v1.LogEntry{entry(1)}}); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	}
	busy := func(_ *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
		for n := 1; ; n++ {
			if err := s.Send(&v1.StreamJobLogsResponse{Entries: []*v1.LogEntry{entry(n)}}); err != nil {
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
				c := newScripted(t)
				var good atomic.Bool
				good.Store(true)
				c.on("VerifyToken", func(context.Context, any) (any, error) {
					if !good.Load() {
						return tc.then()
					}
					return &v1.VerifyTokenResponse{Token: &v1.Token{TenantId: "acme", UserId: "ann", Permissions: auth.AllPermissions}}, nil
				})
				gone := make(chan struct{})
				c.logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
					defer close(gone)
					return tc.logs(r, s)
				}
				next, resp := runGateway(t, testConfig(c)).stream("/jobs/job_1/logs", "Authorization", "Bearer "+auth.MintToken())
				require.Equal(t, 200, resp.StatusCode)
				expectLines(t, next, 1, 1)
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
				for last.name != "error" && last != (event{}) {
					require.Less(t, time.Since(revokedAt), 10*time.Minute, "the stream goes on")
					last = next()
				}
				var why struct{ Error, Code string }
				require.NoError(t, json.Unmarshal([]byte(last.data), &why))
				require.Equal(t, "stream ended", why.Error)
				require.Equal(t, tc.code, why.Code)
				require.Equal(t, event{}, next())
				<-gone
			})
		})
	}
}

// While a token cannot be checked, streams continue: an election must not end all of them.
func TestLogs_goOnWhileTheTokenCannotBeLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		var away atomic.Bool
		c.on("VerifyToken", func(context.Context, any) (any, error) {
			if away.Load() {
				return nil, grpcstatus.Error(codes.Internal, "disk on fire")
			}
			return &v1.VerifyTokenResponse{Token: &v1.Token{TenantId: "acme", UserId: "ann", Permissions: auth.AllPermissions}}, nil
		})
		more := make(chan struct{})
		c.logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			if err := lines(r, s, 1); err != nil {
				return err
			}
			<-more
			r.Cursor = "1:0=1"
			return lines(r, s, 2)
		}
		next, _ := runGateway(t, testConfig(c)).stream("/jobs/job_1/logs", "Authorization", "Bearer "+auth.MintToken())
		expectLines(t, next, 1, 1)
		away.Store(true)
		time.Sleep(10 * time.Minute)
		close(more)
		expectLines(t, next, 2, 2)
		require.True(t, strings.Contains(next().data, "stream ended"))
	})
}
