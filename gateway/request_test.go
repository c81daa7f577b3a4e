package gateway_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

func TestRequestID(t *testing.T) {
	g := gatewaytest.NewGate(t, gatewaytest.Config(gatewaytest.NewCoordinator(t)))
	for id, kept := range map[string]bool{
		"req_abc-1.2:3": true, strings.Repeat("a", 128): true, strings.Repeat("a", 129): false, "with space": false, "<script>": false, "é": false, "": false,
	} {
		a := g.Do("GET", "/v1/me", "", "X-Request-Id", id)
		require.Equal(t, kept, a.Meta.RequestID == id, id)
		if !kept {
			require.Regexp(t, `^req_[0-9a-f]{20}$`, a.Meta.RequestID)
		}
	}
}

func TestIdempotencyKey(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	for range 2 {
		g.Do("POST", rest.Prefix+"/jobs", `{"name":"x"}`, "X-Request-Id", "same")
	}
	g.Do("POST", rest.Prefix+"/jobs", `{"name":"x"}`, "Idempotency-Key", "my key")
	var keys []string
	for _, call := range c.Calls() {
		keys = append(keys, call.MD[status.KeyIdempotency]...)
	}
	require.Len(t, keys, 3)
	require.Regexp(t, `^auto:[0-9a-f]{32}$`, keys[0])
	require.Regexp(t, `^auto:[0-9a-f]{32}$`, keys[1])
	require.NotEqual(t, keys[0], keys[1], "two requests with one request id are two requests")
	require.Equal(t, "my key", keys[2])
}

func TestUnknownOutcome_isRepeatedUnderTheSameMintedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := gatewaytest.NewCoordinator(t), gatewaytest.NewCoordinator(t)
		fail := func(ctx context.Context, _ any) (any, error) {
			_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyOutcome, status.Unknown))
			return nil, grpcstatus.Error(codes.Unavailable, "leadership lost")
		}
		for _, c := range []*gatewaytest.Coordinator{a, b} {
			c.On("SubmitJob", func(ctx context.Context, r any) (any, error) {
				if len(a.Calls())+len(b.Calls()) < 4 {
					return fail(ctx, r)
				}
				return gatewaytest.Replies["SubmitJob"](), nil
			})
		}
		g := gatewaytest.NewGate(t, gatewaytest.Config(a, b))
		require.Equal(t, 201, g.Do("POST", rest.Prefix+"/jobs", `{"name":"x"}`).Code, "a slow answer, not an error")
		var keys []string
		for _, call := range slices.Concat(a.Calls(), b.Calls()) {
			keys = append(keys, call.MD[status.KeyIdempotency]...)
		}
		require.Len(t, keys, 4)
		require.Len(t, slices.Compact(keys), 1)
	})
}

func TestConsistencyAndTimeoutArePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		var left time.Duration
		c.On("GetJob", func(ctx context.Context, _ any) (any, error) {
			deadline, _ := ctx.Deadline()
			left = time.Until(deadline)
			return gatewaytest.Replies["GetJob"](), nil
		})
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		require.Equal(t, 200, g.Do("GET", rest.Prefix+"/jobs/j", "", "X-Mind-Consistency", "stale", "X-Request-Timeout", "9.5").Code)
		require.Equal(t, 200, g.Do("GET", rest.Prefix+"/jobs/j?consistency=stale", "", "X-Request-Timeout", "9.5").Code)
		for _, call := range c.Calls() {
			require.Equal(t, []string{"stale"}, call.MD[status.KeyConsistency])
		}
		require.LessOrEqual(t, left, 9500*time.Millisecond)
		require.Greater(t, left, time.Duration(0))
	})
}

func TestSubmit_saysWhatItIgnored(t *testing.T) {
	g := gatewaytest.NewGate(t, gatewaytest.Config(gatewaytest.NewCoordinator(t)))
	a := g.Do("POST", rest.Prefix+"/jobs", `{"name":"x","training_config":{"mixup":1},"output_config":{"format":"z"}}`)
	require.Equal(t, 201, a.Code)
	data := g.Data(a)
	require.Equal(t, "job_1", data["job_id"])
	require.Equal(t, "PENDING", data["status"])
	require.Equal(t, "ignored unknown fields: training_config.mixup, output_config.format", data["message"])
	require.Nil(t, data["estimated_wait_seconds"])
}

func TestIndex_ofAnswersThatReflectNone(t *testing.T) {
	g := gatewaytest.NewGate(t, gatewaytest.Config(gatewaytest.NewCoordinator(t)))
	require.Equal(t, "0", g.Do("GET", "/health", "").Header.Get("X-Mind-Index"))
	g.Do("GET", rest.Prefix+"/jobs", "")
	require.Equal(t, "42", g.Do("GET", "/nowhere", "").Header.Get("X-Mind-Index"))
}
