package gateway

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
)

func TestRun_drains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		entered, release := make(chan struct{}), make(chan struct{})
		c.on("SubmitJob", func(context.Context, any) (any, error) {
			close(entered)
			<-release
			return replies["SubmitJob"](), nil
		})
		c.logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			_ = lines(r, s, 1)
			<-s.Context().Done()
			return s.Context().Err()
		}
		g := runGateway(t, testConfig(c))
		next, _ := g.stream("/jobs/job_1/logs")
		expectLines(t, next, 1, 1)
		answered := make(chan int, 1)
		go func() {
			resp, err := g.request(context.Background(), "POST", prefix+"/jobs", `{"name":"x"}`)
			if err != nil {
				answered <- 0
				return
			}
			_ = resp.Body.Close()
			answered <- resp.StatusCode
		}()
		<-entered
		g.stop()
		require.Equal(t, event{comment: "this gateway is shutting down"}, next(), "no error event: the caller is to come back")
		require.Equal(t, event{}, next())
		synctest.Wait()
		select {
		case <-g.ended:
			t.Fatal("a request was in flight")
		default:
		}
		close(release)
		require.Equal(t, 201, <-answered)
		err := <-g.ended
		require.NoError(t, err)
		g.ended <- err
		_, err = g.request(context.Background(), "GET", "/health", "")
		require.Error(t, err)
	})
}

func TestRun_drainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		entered := make(chan struct{})
		c.on("SubmitJob", func(ctx context.Context, _ any) (any, error) {
			close(entered)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		config := testConfig(c)
		config.Timeouts.Shutdown = time.Second
		g := runGateway(t, config)
		go func() {
			resp, err := g.request(context.Background(), "POST", prefix+"/jobs", `{"name":"x"}`)
			if err == nil {
				_ = resp.Body.Close()
			}
		}()
		<-entered
		start := time.Now()
		g.stop()
		err := <-g.ended
		require.NoError(t, err)
		require.Less(t, time.Since(start), 2*time.Second)
		g.ended <- err
	})
}

// A caller sees a slow answer, not an error, while the leader changes.
func TestRun_submitsGoThroughAChangeOfLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := newScripted(t), newScripted(t)
		elected := time.Now().Add(2 * time.Second)
		killed := make(chan struct{})
		old.on("SubmitJob", func(ctx context.Context, _ any) (any, error) {
			_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyLeader, "c1=a:1"))
			select {
			case <-killed:
				<-ctx.Done()
				return nil, ctx.Err()
			default:
			}
			return replies["SubmitJob"](), nil
		})
		next.on("SubmitJob", func(ctx context.Context, _ any) (any, error) {
			if time.Now().Before(elected) {
				_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyOutcome, status.NotSent))
				return nil, grpcstatus.Error(codes.Unavailable, "no leader")
			}
			return replies["SubmitJob"](), nil
		})
		g := runGateway(t, testConfig(old, next))
		codes := make(chan int)
		const callers = 8
		for range callers {
			go func() {
				for range 50 {
					resp, err := g.request(context.Background(), "POST", prefix+"/jobs", `{"name":"x"}`)
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
				old.server.Stop()
			}
		}
		require.Less(t, time.Until(elected), time.Duration(0), "the answers were slow")
		require.Less(t, time.Since(elected), 500*time.Millisecond, "but not slower than need be")
	})
}

func TestRun_refusesAListenerItCannotHave(t *testing.T) {
	config := testConfig()
	config.HTTPAddr = "127.0.0.1:99999"
	require.ErrorContains(t, Run(t.Context(), config), "start gateway")
}
