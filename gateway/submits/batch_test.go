package submits_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

func TestBatch_oneResultForEachInOrder(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	c.On("SubmitJobs", gatewaytest.TakesAll)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	a := g.Do("POST", rest.Prefix+"/jobs/batch", `{"jobs":[{"name":"a"},{"nmae":"b"},{"name":"refused"},{"name":"c","data_config":{"zip":1}},{"name":"broken"},7],`+
		`"idempotency_keys":["ka","kb","kr","kc","kx","k7"]}`)
	require.Equal(t, 207, a.Code, a.Body)
	require.JSONEq(t, `{"accepted":2,"refused":4,"results":[
	  {"http_status":201,"job_id":"job_a","status":"PENDING","message":"","estimated_wait_seconds":1.5},
	  {"http_status":422,"error":{"code":"VALIDATION_ERROR","message":"nmae: unknown field; did you mean name? (and 1 more)","details":[
	    {"field":"nmae","message":"unknown field; did you mean name?"},{"field":"name","message":"is required: a label for people, such as \"support-lora-v3\""}]}},
	  {"http_status":400,"error":{"code":"INVALID_ARGUMENT","message":"cwd is required"}},
	  {"http_status":201,"job_id":"job_c","status":"PENDING","message":"ignored unknown fields: data_config.zip","estimated_wait_seconds":1.5},
	  {"http_status":500,"error":{"code":"INTERNAL","message":"internal error; the gateway's log has the details under the request id"}},
	  {"http_status":422,"error":{"code":"VALIDATION_ERROR","message":"must be an object, not a number","details":[{"field":"body","message":"must be an object, not a number"}]}}]}`,
		string(a.Data))
	request := c.Calls()[0].Request.(*v1.SubmitJobsRequest)
	require.Equal(t, []string{"ka", "kr", "kc", "kx"}, request.IdempotencyKeys, "keys stay with their jobs")
}

func TestBatch_onlyFaultyJobsLeadToNoCall(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	a := g.Do("POST", rest.Prefix+"/jobs/batch", `{"jobs":[{}]}`)
	require.Equal(t, 207, a.Code)
	require.Empty(t, c.Calls())
}

func TestBatch_badInput(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	c.On("SubmitJobs", gatewaytest.TakesAll)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	many := func(n int) string {
		return `{"jobs":[` + strings.TrimSuffix(strings.Repeat(`{"name":"x"},`, n), ",") + `]}`
	}
	for name, tc := range map[string]struct {
		body, field string
	}{
		"no jobs":          {`{}`, "jobs"},
		"empty list":       {`{"jobs":[]}`, "jobs"},
		"not a list":       {`{"jobs":{}}`, "jobs"},
		"too many":         {many(1001), "jobs"},
		"a list":           {`[]`, "body"},
		"unknown field":    {`{"jobs":[{"name":"x"}],"job":[]}`, "job"},
		"too few keys":     {`{"jobs":[{"name":"x"},{"name":"y"}],"idempotency_keys":["k"]}`, "idempotency_keys"},
		"a bad key":        {`{"jobs":[{"name":"x"}],"idempotency_keys":["auto:x"]}`, "idempotency_keys[0]"},
		"keys not strings": {`{"jobs":[{"name":"x"}],"idempotency_keys":[1]}`, "idempotency_keys[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			a := g.Do("POST", rest.Prefix+"/jobs/batch", tc.body)
			require.Equal(t, 422, a.Code, a.Body)
			require.Equal(t, tc.field, a.Error.Details[0].Field)
		})
	}
	require.Empty(t, c.Calls())
	require.Equal(t, 207, g.Do("POST", rest.Prefix+"/jobs/batch", many(1000)).Code)
}

func TestBatch_aCoordinatorThatAnswersTheWrongNumber(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	c.On("SubmitJobs", func(context.Context, any) (any, error) { return &v1.SubmitJobsResponse{}, nil })
	require.Equal(t, 500, gatewaytest.NewGate(t, gatewaytest.Config(c)).Do("POST", rest.Prefix+"/jobs/batch", `{"jobs":[{"name":"x"}]}`).Code)
}
