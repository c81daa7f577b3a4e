package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

func TestBadInput(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	cases := map[string]struct {
		method, path, body string
		headers            []string
		code               int
		errorCode, field   string
	}{
		"malformed JSON":          {"POST", "/jobs", `{"name":`, nil, 422, "VALIDATION_ERROR", "body"},
		"empty body":              {"POST", "/jobs", ``, nil, 422, "VALIDATION_ERROR", "body"},
		"no name":                 {"POST", "/jobs", `{"command_config":{"argv":["x"]}}`, nil, 422, "VALIDATION_ERROR", "name"},
		"null name":               {"POST", "/jobs", `{"name":null}`, nil, 422, "VALIDATION_ERROR", "name"},
		"unknown enum":            {"POST", "/jobs", `{"name":"x","training_config":{"training_type":"X"}}`, nil, 422, "VALIDATION_ERROR", "training_config.training_type"},
		"unknown field of cancel": {"POST", "/jobs/j/cancel", `{"resaon":"x"}`, nil, 422, "VALIDATION_ERROR", "resaon"},
		"job_id in the body":      {"POST", "/jobs/j/cancel", `{"job_id":"k"}`, nil, 422, "VALIDATION_ERROR", "job_id"},
		"2 MiB":                   {"POST", "/jobs", `{"name":"` + strings.Repeat("x", 2<<20) + `"}`, nil, 413, "PAYLOAD_TOO_LARGE", ""},
		"just over 1 MiB":         {"POST", "/jobs", `{"name":"` + strings.Repeat("x", 1<<20-10) + `"}`, nil, 413, "PAYLOAD_TOO_LARGE", ""},
		"batch over 8 MiB":        {"POST", "/jobs/batch", strings.Repeat(" ", 8<<20+1), nil, 413, "PAYLOAD_TOO_LARGE", ""},
		"unknown status":          {"GET", "/jobs?status=RUNNING", "", nil, 422, "VALIDATION_ERROR", "status"},
		"page_size 0":             {"GET", "/jobs?page_size=0", "", nil, 422, "VALIDATION_ERROR", "page_size"},
		"at in words":             {"GET", "/jobs/job_1/explain?at=yesterday", "", nil, 422, "VALIDATION_ERROR", "at"},
		"at entry 0":              {"GET", "/jobs/job_1/explain?at=0", "", nil, 422, "VALIDATION_ERROR", "at"},
		"page_size 101":           {"GET", "/jobs?page_size=101", "", nil, 422, "VALIDATION_ERROR", "page_size"},
		"page_size ten":           {"GET", "/jobs?page_size=ten", "", nil, 422, "VALIDATION_ERROR", "page_size"},
		"label without a value":   {"GET", "/jobs?label=team", "", nil, 422, "VALIDATION_ERROR", "label"},
		"queue limit":             {"GET", "/queue?limit=1001", "", nil, 422, "VALIDATION_ERROR", "limit"},
		"tail":                    {"GET", "/jobs/j/logs?tail=-1", "", nil, 422, "VALIDATION_ERROR", "tail"},
		"follow":                  {"GET", "/jobs/j/logs?follow=maybe", "", nil, 422, "VALIDATION_ERROR", "follow"},
		"since":                   {"GET", "/jobs/j/logs?since=yesterday", "", nil, 422, "VALIDATION_ERROR", "since"},
		"long key":                {"POST", "/jobs", `{"name":"x"}`, []string{"Idempotency-Key", strings.Repeat("k", 256)}, 422, "VALIDATION_ERROR", "Idempotency-Key"},
		"key with a tab":          {"POST", "/jobs", `{"name":"x"}`, []string{"Idempotency-Key", "a\tb"}, 422, "VALIDATION_ERROR", "Idempotency-Key"},
		"key beyond ASCII":        {"POST", "/jobs", `{"name":"x"}`, []string{"Idempotency-Key", "é"}, 422, "VALIDATION_ERROR", "Idempotency-Key"},
		"key like a minted one":   {"POST", "/jobs", `{"name":"x"}`, []string{"Idempotency-Key", "auto:1"}, 422, "VALIDATION_ERROR", "Idempotency-Key"},
		"timeout of 0":            {"GET", "/jobs", "", []string{"X-Request-Timeout", "0"}, 422, "VALIDATION_ERROR", "X-Request-Timeout"},
		"timeout of NaN":          {"GET", "/jobs", "", []string{"X-Request-Timeout", "NaN"}, 422, "VALIDATION_ERROR", "X-Request-Timeout"},
		"timeout of a day":        {"GET", "/jobs", "", []string{"X-Request-Timeout", "86400"}, 422, "VALIDATION_ERROR", "X-Request-Timeout"},
		"id that is no UTF-8":     {"GET", "/jobs/%ff%fe", "", nil, 404, "NOT_FOUND", ""},
		"query cut off in a %":    {"GET", "/audit?tenant_id=50%", "", nil, 422, "VALIDATION_ERROR", "query"},
		"query with a semicolon":  {"GET", "/jobs?queue=a;status=FAILED", "", nil, 422, "VALIDATION_ERROR", "query"},
		"query that is no UTF-8":  {"GET", "/queue?queue=%ff", "", nil, 422, "VALIDATION_ERROR", "queue"},
		"body that is no UTF-8":   {"POST", "/jobs", "{\"name\":\"\xff\xfe\"}", nil, 422, "VALIDATION_ERROR", ""},
		"consistency in a query":  {"GET", "/jobs?consistency=eventual", "", nil, 422, "VALIDATION_ERROR", "consistency"},
		"misspelt parameter":      {"GET", "/jobs?stauts=FAILED", "", nil, 422, "VALIDATION_ERROR", "stauts"},
		"parameter of another":    {"GET", "/jobs/job_1?page_size=3", "", nil, 422, "VALIDATION_ERROR", "page_size"},
		"parameter of a write":    {"POST", "/jobs/job_1/cancel?reason=x", "", nil, 422, "VALIDATION_ERROR", "reason"},
		"parameter given twice":   {"GET", "/jobs?page_size=1&page_size=2", "", nil, 422, "VALIDATION_ERROR", "page_size"},
		"consistency given twice": {"GET", "/jobs?consistency=stale&consistency=stale", "", nil, 422, "VALIDATION_ERROR", "consistency"},
		"at as a power":           {"GET", "/jobs/job_1/explain?at=1e3", "", nil, 422, "VALIDATION_ERROR", "at"},
		"at as a fraction":        {"GET", "/jobs/job_1/explain?at=3.5", "", nil, 422, "VALIDATION_ERROR", "at"},
		"compressed body":         {"POST", "/jobs", "\x1f\x8b", []string{"Content-Encoding", "gzip"}, 415, "UNSUPPORTED_MEDIA_TYPE", ""},
		"consistency":             {"GET", "/jobs", "", []string{"X-Mind-Consistency", "eventual"}, 422, "VALIDATION_ERROR", "X-Mind-Consistency"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := g.Do(tc.method, rest.Prefix+tc.path, tc.body, tc.headers...)
			require.Equal(t, tc.code, a.Code, a.Body)
			require.Equal(t, "error", a.Status)
			require.Equal(t, tc.errorCode, a.Error.Code)
			require.NotEmpty(t, a.Error.Message)
			require.NotEmpty(t, a.Meta.RequestID)
			if tc.field != "" {
				require.NotEmpty(t, a.Error.Details)
				require.Equal(t, tc.field, a.Error.Details[0].Field)
				require.NotEmpty(t, a.Error.Details[0].Message)
			}
		})
	}
	require.Empty(t, c.Calls(), "none of this reaches a coordinator")
	says := g.Do("GET", rest.Prefix+"/jobs?stauts=FAILED", "").Error.Message
	require.Equal(t, "stauts: is no parameter of GET /jobs: it takes status, queue, label, page_size, page_token, order_by, search, user, fields, facets, consistency", says)
	require.Equal(t, "page_size: is given twice", g.Do("GET", rest.Prefix+"/jobs?page_size=1&page_size=2", "").Error.Message)
	name := strings.Repeat("x", 1<<20-len(`{"name":""}`))
	require.Equal(t, 201, g.Do("POST", rest.Prefix+"/jobs", `{"name":"`+name+`"}`).Code, "1 MiB is let through")
}

func TestErrors_everyCode(t *testing.T) {
	const raw = "pq: relation secrets does not exist"
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		t.Run(code.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := gatewaytest.NewCoordinator(t)
				c.On("GetJob", func(ctx context.Context, _ any) (any, error) {
					_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyIndex, "7"))
					return nil, grpcstatus.Error(code, raw)
				})
				var log bytes.Buffer
				config := gatewaytest.Config(c)
				config.Logger = slog.New(slog.NewJSONHandler(&log, nil))
				g := gatewaytest.NewGate(t, config)
				a := g.Do("GET", rest.Prefix+"/jobs/job_1", "")
				want := status.OfCode(code)
				require.Equal(t, want.HTTP, a.Code)
				require.Equal(t, want.Code, a.Error.Code)
				require.NotEmpty(t, a.Error.Message)
				passed := want.Policy == status.Pass
				require.Equal(t, passed, strings.Contains(a.Body, raw))
				require.Equal(t, code == codes.Unavailable || code == codes.ResourceExhausted || code == codes.DeadlineExceeded && a.Code == 503, a.Error.RetryAfter > 0)
				require.Equal(t, a.Error.RetryAfter > 0, a.Header.Get("Retry-After") != "")
				if passed {
					require.Empty(t, log.String())
					return
				}
				var line struct {
					Event     string `json:"event"`
					RequestID string `json:"request_id"`
					RawDetail string `json:"raw_detail"`
				}
				require.NoError(t, json.Unmarshal(bytes.SplitN(log.Bytes(), []byte("\n"), 2)[0], &line))
				require.Equal(t, "scaimind_coordinator_error", line.Event)
				require.Equal(t, a.Meta.RequestID, line.RequestID)
				require.NotEmpty(t, line.RawDetail)
				require.Contains(t, g.Do("GET", "/metrics", "").Body, `mind_coordinator_errors_total{code="`)
			})
		})
	}
}

// The advice after a failure depends on the request: a read needs no key, and a write that certainly had no effect
// needs none either.
func TestErrors_adviceFitsTheRequest(t *testing.T) {
	const none, late = "no coordinator can accept this now: there is no leader, or none can be reached", "the coordinators did not answer in time"
	const job = `{"name":"x"}`
	for _, tc := range []struct {
		method, path, body, key string
		code                    codes.Code
		outcome                 string
		want                    string
	}{
		{"GET", "/jobs/job_1", "", "", codes.Unavailable, status.NotSent, none + "; try again, or read from one coordinator with consistency=stale"},
		{"GET", "/jobs/job_1?consistency=stale", "", "", codes.Unavailable, status.NotSent, none + "; try again"},
		{"GET", "/jobs/job_1?consistency=stale", "", "", codes.DeadlineExceeded, "", late + "; try again"},
		{"POST", "/jobs", job, "k", codes.Unavailable, status.NotSent, none + "; nothing was changed: try again"},
		{"POST", "/jobs", job, "k", codes.Unavailable, status.Unknown, none + "; it may have taken effect: try again with the same Idempotency-Key"},
		{"POST", "/jobs", job, "", codes.Unavailable, status.Unknown, none + "; it may have taken effect: check before you try again, and send an Idempotency-Key with writes that you may have to repeat"},
		{"POST", "/jobs/job_1/cancel", "", "k", codes.DeadlineExceeded, status.Unknown, late + "; it may have taken effect: try again with the same Idempotency-Key"},
		{"GET", "/jobs/job_1", "", "", codes.Unavailable, status.NodeSilent, "as the test has it"},
	} {
		t.Run(fmt.Sprint(tc.method, tc.path, tc.key, tc.code, tc.outcome), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := gatewaytest.NewCoordinator(t)
				for _, method := range []string{"GetJob", "SubmitJob", "CancelJob"} {
					c.On(method, func(ctx context.Context, _ any) (any, error) {
						_ = grpc.SetTrailer(ctx, metadata.Pairs(status.KeyOutcome, tc.outcome))
						return nil, grpcstatus.Error(tc.code, "as the test has it")
					})
				}
				a := gatewaytest.NewGate(t, gatewaytest.Config(c)).Do(tc.method, rest.Prefix+tc.path, tc.body, "Idempotency-Key", tc.key)
				require.Equal(t, tc.want, a.Error.Message)
			})
		})
	}
}

func TestErrors_nobodyIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := gatewaytest.Config()
		g := gatewaytest.NewGate(t, config)
		a := g.Do("POST", rest.Prefix+"/jobs", `{"name":"x"}`)
		require.Equal(t, 503, a.Code)
		require.Equal(t, "UNAVAILABLE", a.Error.Code)
		require.Equal(t, 1, a.Error.RetryAfter)
		require.NotContains(t, a.Body, "refused", "what the transport says is not for callers")
	})
}

func TestPanic_endsOneRequestOnly(t *testing.T) {
	var log bytes.Buffer
	config := gatewaytest.Config(gatewaytest.NewCoordinator(t))
	config.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	s, _ := newInner(t, config)
	g := gatewaytest.GateOf(t, s.HandlerOf(&rest.Route{Open: true, Name: "boom", Serve: func(*rest.Request) error { panic("secret detail") }}))
	a := g.Do("GET", "/", "")
	require.Equal(t, 500, a.Code)
	require.Equal(t, "INTERNAL", a.Error.Code)
	require.NotContains(t, a.Body, "secret detail")
	require.Contains(t, log.String(), "secret detail")
	require.Contains(t, log.String(), a.Meta.RequestID)
}
