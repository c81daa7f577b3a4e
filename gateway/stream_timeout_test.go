package gateway

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/stream"
)

// The caller sees one stream, even if the gateway reopens its stream from a coordinator; a job that is silent for
// longer than the gateway retries does not end the stream.
func TestLogs_upstreamsOfBoundedTimeAreOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		var opened atomic.Int64
		silent := int64(stream.GiveUp/time.Minute) + 3
		c.logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			if n := opened.Add(1) - silent; n > 0 {
				if err := lines(r, s, int(n)*5); err != nil || n == 3 {
					return err
				}
			}
			<-s.Context().Done()
			return s.Context().Err()
		}
		config := testConfig(c)
		config.Timeouts.Stream = time.Minute
		next, _ := runGateway(t, config).stream("/jobs/job_1/logs")
		expectLines(t, next, 1, 15)
		require.Equal(t, event{name: "error", data: streamEnded}, next(), "all was sent")
		require.Equal(t, silent+3, opened.Load())
	})
}

func TestRequests_theTimeOfStreamsIsNotTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		c.on("SubmitJob", func(context.Context, any) (any, error) {
			time.Sleep(5 * time.Second)
			return replies["SubmitJob"](), nil
		})
		config := testConfig(c)
		config.Timeouts.Stream = time.Second
		resp, err := runGateway(t, config).request(t.Context(), "POST", prefix+"/jobs", `{"name":"x"}`)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, 201, resp.StatusCode)
	})
}
