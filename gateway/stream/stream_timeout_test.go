package stream_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/stream"
)

// The caller sees one stream, even if the gateway reopens its stream from a coordinator; a job that is silent for
// longer than the gateway retries does not end the stream.
func TestLogs_upstreamsOfBoundedTimeAreOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		var opened atomic.Int64
		silent := int64(stream.GiveUp/time.Minute) + 3
		c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			if n := opened.Add(1) - silent; n > 0 {
				if err := gatewaytest.Lines(r, s, int(n)*5); err != nil || n == 3 {
					return err
				}
			}
			<-s.Context().Done()
			return s.Context().Err()
		}
		config := gatewaytest.Config(c)
		config.Timeouts.Stream = time.Minute
		next, _ := gatewaytest.Run(t, config).Stream("/jobs/job_1/logs")
		gatewaytest.ExpectLines(t, next, 1, 15)
		require.Equal(t, gatewaytest.Event{Name: "error", Data: gatewaytest.StreamEnded}, next(), "all was sent")
		require.Equal(t, silent+3, opened.Load())
	})
}

func TestRequests_theTimeOfStreamsIsNotTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		c.On("SubmitJob", func(context.Context, any) (any, error) {
			time.Sleep(5 * time.Second)
			return gatewaytest.Replies["SubmitJob"](), nil
		})
		config := gatewaytest.Config(c)
		config.Timeouts.Stream = time.Second
		resp, err := gatewaytest.Run(t, config).Request(t.Context(), "POST", rest.Prefix+"/jobs", `{"name":"x"}`)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, 201, resp.StatusCode)
	})
}
