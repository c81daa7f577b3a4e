package stream_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/bounds"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// A tenant that has as many streams as it may gets no further one of any kind, and one as soon as it has closed one.
func TestStreams_boundOfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			if err := gatewaytest.Lines(r, s, 1); err != nil {
				return err
			}
			<-s.Context().Done()
			return s.Context().Err()
		}
		config := gatewaytest.Config(c)
		config.Bounds = bounds.Limits{Streams: 1}
		g := gatewaytest.Run(t, config)
		open := func(ctx context.Context, path string, headers ...string) *http.Response {
			resp, err := g.Request(ctx, "GET", rest.Prefix+path, "", headers...)
			require.NoError(t, err)
			return resp
		}
		ctx, hangUp := context.WithCancel(t.Context())
		require.Equal(t, http.StatusOK, open(ctx, "/jobs/job_1/logs").StatusCode)
		for _, again := range []*http.Response{
			open(t.Context(), "/jobs/job_1/logs"),
			open(t.Context(), "/events"),
			open(t.Context(), "/jobs/job_1/exec?tunnel=0123456789abcdef", "Connection", "Upgrade", "Upgrade", "websocket",
				"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg=="),
		} {
			body, err := io.ReadAll(again.Body)
			require.NoError(t, err)
			require.Equal(t, http.StatusTooManyRequests, again.StatusCode, string(body))
			require.Equal(t, "5", again.Header.Get("Retry-After"))
			require.Contains(t, string(body), "RESOURCE_EXHAUSTED")
			require.Contains(t, string(body), "max_streams_per_tenant")
		}
		hangUp()
		synctest.Wait()
		require.Equal(t, http.StatusOK, open(t.Context(), "/jobs/job_1/logs").StatusCode)
	})
}
