package gateway_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

func TestRun_drains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		entered, release := make(chan struct{}), make(chan struct{})
		c.On("SubmitJob", func(context.Context, any) (any, error) {
			close(entered)
			<-release
			return gatewaytest.Replies["SubmitJob"](), nil
		})
		c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			_ = gatewaytest.Lines(r, s, 1)
			<-s.Context().Done()
			return s.Context().Err()
		}
		g := gatewaytest.Run(t, gatewaytest.Config(c))
		next, _ := g.Stream("/jobs/job_1/logs")
		gatewaytest.ExpectLines(t, next, 1, 1)
		answered := make(chan int, 1)
		go func() {
			resp, err := g.Request(context.Background(), "POST", rest.Prefix+"/jobs", `{"name":"x"}`)
			if err != nil {
				answered <- 0
				return
			}
			_ = resp.Body.Close()
			answered <- resp.StatusCode
		}()
		<-entered
		g.Stop()
		require.Equal(t, gatewaytest.Event{Comment: "this gateway is shutting down"}, next(), "no error event: the caller is to come back")
		require.Equal(t, gatewaytest.Event{}, next())
		synctest.Wait()
		select {
		case <-g.Ended:
			t.Fatal("a request was in flight")
		default:
		}
		close(release)
		require.Equal(t, 201, <-answered)
		err := <-g.Ended
		require.NoError(t, err)
		g.Ended <- err
		_, err = g.Request(context.Background(), "GET", "/health", "")
		require.Error(t, err)
	})
}

func TestRun_drainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		entered := make(chan struct{})
		c.On("SubmitJob", func(ctx context.Context, _ any) (any, error) {
			close(entered)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		config := gatewaytest.Config(c)
		config.Timeouts.Shutdown = time.Second
		g := gatewaytest.Run(t, config)
		go func() {
			resp, err := g.Request(context.Background(), "POST", rest.Prefix+"/jobs", `{"name":"x"}`)
			if err == nil {
				_ = resp.Body.Close()
			}
		}()
		<-entered
		start := time.Now()
		g.Stop()
		err := <-g.Ended
		require.NoError(t, err)
		require.Less(t, time.Since(start), 2*time.Second)
		g.Ended <- err
	})
}

// A caller sees a slow answer, not an error, while the leader changes.
func TestRun_submitsGoThroughAChangeOfLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := gatewaytest.NewCoordinator(t), gatewaytest.NewCoordinator(t)
		elected := time.Now().Add(2 * time.Second)
		killed := make(chan struct{})
		old.On("SubmitJob", func(ctx context.Context, _ any) (any, error) {
			_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyLeader, "c1=a:1"))
			select {
			case <-killed:
				<-ctx.Done()
				return nil, ctx.Err()
			default:
			}
			return gatewaytest.Replies["SubmitJob"](), nil
		})
		next.On("SubmitJob", func(ctx context.Context, _ any) (any, error) {
			if time.Now().Before(elected) {
				_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyOutcome, status.NotSent))
				return nil, grpcstatus.Error(codes.Unavailable, "no leader")
			}
			return gatewaytest.Replies["SubmitJob"](), nil
		})
		g := gatewaytest.Run(t, gatewaytest.Config(old, next))
		codes := make(chan int)
		const callers = 8
		for range callers {
			go func() {
				for range 50 {
					resp, err := g.Request(context.Background(), "POST", rest.Prefix+"/jobs", `{"name":"x"}`)
					if err != nil {
						codes <- 0
						continue
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
					codes <- resp.StatusCode
				}
			}()
		}
		for n := range callers * 50 {
			require.Equal(t, http.StatusCreated, <-codes)
			if n == 100 {
				close(killed)
				old.Stop()
			}
		}
		require.Less(t, time.Until(elected), time.Duration(0), "the answers were slow")
		require.Less(t, time.Since(elected), 500*time.Millisecond, "but not slower than need be")
	})
}

func TestRun_refusesAListenerItCannotHave(t *testing.T) {
	config := gatewaytest.Config()
	config.HTTPAddr = "127.0.0.1:99999"
	require.ErrorContains(t, gateway.Run(t.Context(), config), "start gateway")
}
