package stream_test

import (
	"context"
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
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

func TestLogs_asPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			return gatewaytest.Lines(r, s, 3)
		}
		next, resp := gatewaytest.Run(t, gatewaytest.Config(c)).Stream("/jobs/job_1/logs")
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
		require.Equal(t, "no-cache", resp.Header.Get("Cache-Control"))
		require.Equal(t, "no", resp.Header.Get("X-Accel-Buffering"))
		require.NotEmpty(t, resp.Header.Get("X-Request-Id"))
		require.NotEmpty(t, resp.Header.Get("X-Mind-Index"))
		gatewaytest.ExpectLines(t, next, 1, 3)
		require.Equal(t, gatewaytest.Event{Name: "error", Data: gatewaytest.StreamEnded}, next())
		require.Equal(t, gatewaytest.Event{}, next())
	})
}

func TestLogs_goOnAfterTheUpstreamBroke(t *testing.T) {
	for name, cut := range map[string]error{
		"unavailable": grpcstatus.Error(codes.Unavailable, "leader changed"),
		"cut off":     grpcstatus.Error(codes.Internal, "stream terminated by RST_STREAM"),
		"canceled":    grpcstatus.Error(codes.Canceled, "shutting down"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := gatewaytest.NewCoordinator(t)
				var opened atomic.Int64
				c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
					if k := opened.Add(1); k <= 4 { // breaks after 5, 10, 15, and at once
						if err := gatewaytest.Lines(r, s, int(min(k, 3))*5); err != nil {
							return err
						}
						return cut
					}
					return gatewaytest.Lines(r, s, 20)
				}
				next, _ := gatewaytest.Run(t, gatewaytest.Config(c)).Stream("/jobs/job_1/logs?tail=100")
				gatewaytest.ExpectLines(t, next, 1, 20)
				require.Equal(t, gatewaytest.Event{Name: "error", Data: gatewaytest.StreamEnded}, next())
				calls := c.Calls()
				require.Len(t, calls, 5)
				for i, cursor := range []string{"", "1:0=5", "1:0=10", "1:0=15", "1:0=15"} {
					r := calls[i].Request.(*v1.StreamJobLogsRequest)
					require.Equal(t, cursor, r.Cursor)
					require.Equal(t, cursor == "", r.Tail != nil, "a tail is for the beginning only")
				}
			})
		})
	}
}

// A stream that starts at the present has no line after which to resume when it breaks before its first line: both the
// gateway and the caller then resume after the position that the coordinator has sent for its start.
func TestLogs_goOnBeforeTheFirstLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		var opened atomic.Int64
		c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			if opened.Add(1) == 1 {
				if err := s.Send(&v1.StreamJobLogsResponse{Cursor: "1:0=6"}); err != nil {
					return err
				}
				return grpcstatus.Error(codes.Unavailable, "going down")
			}
			return gatewaytest.Lines(r, s, 9)
		}
		next, _ := gatewaytest.Run(t, gatewaytest.Config(c)).Stream("/jobs/job_1/logs?tail=0")
		require.Equal(t, gatewaytest.Event{ID: "1:0=6"}, next())
		gatewaytest.ExpectLines(t, next, 7, 9)
		require.Nil(t, c.Calls()[1].Request.(*v1.StreamJobLogsRequest).Tail)
	})
}

// The empty messages by which a coordinator shows that it is alive are not passed on; the caller gets comments instead.
func TestLogs_keepaliveOfASilentJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		c.Logs = func(_ *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			for s.Context().Err() == nil {
				if err := s.Send(&v1.StreamJobLogsResponse{}); err != nil {
					return err
				}
				select {
				case <-time.After(10 * time.Second):
				case <-s.Context().Done():
				}
			}
			return s.Context().Err()
		}
		next, _ := gatewaytest.Run(t, gatewaytest.Config(c)).Stream("/jobs/job_1/logs")
		start := time.Now()
		require.Equal(t, gatewaytest.Event{Comment: "keepalive"}, next())
		require.Less(t, time.Since(start), 20*time.Second)
	})
}

func TestLogs_goOnAtAnotherCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		coordinators := []*gatewaytest.Coordinator{gatewaytest.NewCoordinator(t), gatewaytest.NewCoordinator(t), gatewaytest.NewCoordinator(t)}
		dying := make(chan *gatewaytest.Coordinator, 1)
		var opened atomic.Int64
		for _, c := range coordinators {
			c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
				if opened.Add(1) == 1 {
					if err := gatewaytest.Lines(r, s, 5); err != nil {
						return err
					}
					dying <- c
					<-s.Context().Done() // its process is killed
					return s.Context().Err()
				}
				return gatewaytest.Lines(r, s, 10)
			}
		}
		next, _ := gatewaytest.Run(t, gatewaytest.Config(coordinators...)).Stream("/jobs/job_1/logs")
		gatewaytest.ExpectLines(t, next, 1, 5)
		start := time.Now()
		(<-dying).Stop()
		gatewaytest.ExpectLines(t, next, 6, 10)
		require.Less(t, time.Since(start), time.Second)
		require.Equal(t, gatewaytest.Event{Name: "error", Data: gatewaytest.StreamEnded}, next())
	})
}

func TestLogs_resumeByTheCaller(t *testing.T) {
	for name, tc := range map[string]struct {
		query   string
		headers []string
	}{
		"header": {"?tail=2", []string{"Last-Event-ID", "1:0=7"}}, "query": {"?last_event_id=1:0=7", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := gatewaytest.NewCoordinator(t)
				c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
					return gatewaytest.Lines(r, s, 9)
				}
				next, _ := gatewaytest.Run(t, gatewaytest.Config(c)).Stream("/jobs/job_1/logs"+tc.query, tc.headers...)
				gatewaytest.ExpectLines(t, next, 8, 9)
				require.Equal(t, "error", next().Name)
				require.Nil(t, c.Calls()[0].Request.(*v1.StreamJobLogsRequest).Tail)
			})
		})
	}
}

func TestLogs_errorsBeforeTheFirstEventAreEnvelopes(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		code int
	}{
		"not found": {grpcstatus.Error(codes.NotFound, `no job "job_1"`), 404},
		"bad":       {grpcstatus.Error(codes.InvalidArgument, "bad cursor"), 400},
		"no leader": {grpcstatus.Error(codes.Unavailable, "no leader"), 503},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := gatewaytest.NewCoordinator(t)
				c.Logs = func(*v1.StreamJobLogsRequest, grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
					return tc.err
				}
				start := time.Now()
				_, resp := gatewaytest.Run(t, gatewaytest.Config(c)).Stream("/jobs/job_1/logs")
				require.Equal(t, tc.code, resp.StatusCode)
				require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
				require.LessOrEqual(t, time.Since(start), 11*time.Second)
			})
		})
	}
}

func TestLogs_errorsAfterTheFirstEventEndTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			_ = gatewaytest.Lines(r, s, 1)
			return grpcstatus.Error(codes.NotFound, "job is no longer known")
		}
		next, _ := gatewaytest.Run(t, gatewaytest.Config(c)).Stream("/jobs/job_1/logs")
		gatewaytest.ExpectLines(t, next, 1, 1)
		require.Equal(t, gatewaytest.Event{Name: "error", Data: `{"error":"stream ended","code":"NOT_FOUND","message":"job is no longer known"}`}, next())
		require.Equal(t, gatewaytest.Event{}, next())
	})
}

func TestLogs_aSilentJobOpensAndIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			select {
			case <-time.After(40 * time.Second):
				return gatewaytest.Lines(r, s, 1)
			case <-s.Context().Done():
				return s.Context().Err()
			}
		}
		start := time.Now()
		next, resp := gatewaytest.Run(t, gatewaytest.Config(c)).Stream("/jobs/job_1/logs")
		require.Equal(t, 200, resp.StatusCode)
		require.LessOrEqual(t, time.Since(start), time.Second)
		for k := 1; k <= 2; k++ {
			require.Equal(t, gatewaytest.Event{Comment: "keepalive"}, next())
			require.InDelta(t, float64(15*k), time.Since(start).Seconds(), 1.1)
		}
		gatewaytest.ExpectLines(t, next, 1, 1)
	})
}

func TestLogs_aCallerThatHangsUpEndsTheUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		gone := make(chan struct{})
		c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			_ = gatewaytest.Lines(r, s, 1)
			<-s.Context().Done()
			close(gone)
			return s.Context().Err()
		}
		g := gatewaytest.Run(t, gatewaytest.Config(c))
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := g.Request(ctx, "GET", rest.Prefix+"/jobs/job_1/logs", "")
		require.NoError(t, err)
		cancel()
		<-gone
		_ = resp.Body.Close()
	})
}

func TestLogs_aSlowReaderHoldsBackTheUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		var sent atomic.Int64
		c.Logs = func(_ *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			e := gatewaytest.Entry(1)
			e.Message = strings.Repeat("x", 32<<10)
			for range 4096 { // 128 MiB
				if err := s.Send(&v1.StreamJobLogsResponse{Entries: []*v1.LogEntry{e}}); err != nil {
					return err
				}
				sent.Add(1)
			}
			return nil
		}
		_, _ = gatewaytest.Run(t, gatewaytest.Config(c)).Stream("/jobs/job_1/logs")
		synctest.Wait() // no caller reads: all goroutines are blocked
		require.Less(t, sent.Load()*32<<10, int64(4<<20))
		require.Positive(t, sent.Load())
	})
}

func TestLogs_query(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for query, want := range map[string]func(r *v1.StreamJobLogsRequest) bool{
		"": func(r *v1.StreamJobLogsRequest) bool {
			return r.Tail == nil && r.Follow == nil && r.Rank == nil && r.Since == nil
		},
		"tail=0&follow=true":         func(r *v1.StreamJobLogsRequest) bool { return *r.Tail == 0 && *r.Follow },
		"tail=7&follow=0":            func(r *v1.StreamJobLogsRequest) bool { return *r.Tail == 7 && !*r.Follow },
		"rank=0&attempt=2":           func(r *v1.StreamJobLogsRequest) bool { return *r.Rank == 0 && r.Attempt == 2 },
		"since=2026-01-31T08:00:00Z": func(r *v1.StreamJobLogsRequest) bool { return r.Since.AsTime().Unix() == 1769846400 },
		"since=90":                   func(r *v1.StreamJobLogsRequest) bool { return r.Since.AsTime().Unix() == now.Unix()-90 },
		"since=10m":                  func(r *v1.StreamJobLogsRequest) bool { return r.Since.AsTime().Unix() == now.Unix()-600 },
		"since=1769846400":           func(r *v1.StreamJobLogsRequest) bool { return r.Since.AsTime().Unix() == 1769846400 },
	} {
		values := map[string][]string{}
		for pair := range strings.SplitSeq(query, "&") {
			if name, value, ok := strings.Cut(pair, "="); ok {
				values[name] = []string{value}
			}
		}
		r, faults := wire.StreamJobLogs(values, now)
		require.Empty(t, faults, query)
		require.True(t, want(r), query)
	}
}

// Streams also work without a leader, with a stale start.
func TestLogs_ofWhatOneCoordinatorHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		c.Logs = func(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
			return gatewaytest.Lines(r, s, 1)
		}
		g := gatewaytest.Run(t, gatewaytest.Config(c))
		for i, tc := range []struct {
			query   string
			headers []string
			want    []string
		}{
			{"", nil, nil},
			{"?consistency=stale", nil, []string{status.Stale}},
			{"", []string{"X-Mind-Consistency", "stale"}, []string{status.Stale}},
			{"?consistency=linearizable", nil, nil},
		} {
			next, resp := g.Stream("/jobs/job_1/logs"+tc.query, tc.headers...)
			require.Equal(t, 200, resp.StatusCode)
			gatewaytest.ExpectLines(t, next, 1, 1)
			require.Equal(t, "error", next().Name)
			require.Equal(t, tc.want, c.Calls()[i].MD[status.KeyConsistency])
		}
		_, resp := g.Stream("/jobs/job_1/logs?consistency=maybe")
		require.Equal(t, 422, resp.StatusCode)
	})
}

func TestMetricsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		c.Metrics = func(r *v1.StreamJobMetricsRequest, s grpc.ServerStreamingServer[v1.StreamJobMetricsResponse]) error {
			if r.Cursor == "" {
				_ = s.Send(&v1.StreamJobMetricsResponse{Entries: []*v1.MetricsEntry{{Json: `{"step": 200, "loss": 0.34}`, Cursor: "1"}, {Json: `{"loss": NaN}`, Cursor: "2"}, {Json: `[1, 2]`, Cursor: "3"}, {Json: "noise \x1b", Cursor: "4"}}})
				return grpcstatus.Error(codes.Unavailable, "gone")
			}
			return s.Send(&v1.StreamJobMetricsResponse{Entries: []*v1.MetricsEntry{{Json: "{}\n", Cursor: r.Cursor + "+"}}})
		}
		next, _ := gatewaytest.Run(t, gatewaytest.Config(c)).Stream("/jobs/job_1/metrics/stream?follow=true")
		require.Equal(t, gatewaytest.Event{ID: "1", Name: "metrics", Data: `{"step": 200, "loss": 0.34}`}, next())
		require.Equal(t, gatewaytest.Event{ID: "2", Name: "metrics", Data: `{"line":"{\"loss\": NaN}"}`}, next())
		require.Equal(t, gatewaytest.Event{ID: "3", Name: "metrics", Data: `{"line":"[1, 2]"}`}, next(), "who reads metrics need not expect anything but objects")
		require.Equal(t, gatewaytest.Event{ID: "4", Name: "metrics", Data: `{"line":"noise \u001b"}`}, next())
		require.Equal(t, gatewaytest.Event{ID: "4+", Name: "metrics", Data: `{}`}, next())
		require.Equal(t, gatewaytest.Event{Name: "error", Data: gatewaytest.StreamEnded}, next())
		require.True(t, *c.Calls()[0].Request.(*v1.StreamJobMetricsRequest).Follow)
	})
}
