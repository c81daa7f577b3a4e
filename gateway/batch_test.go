package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// takesAll accepts all jobs of a batch, except one named "refused".
func takesAll(_ context.Context, r any) (any, error) {
	reply := &v1.SubmitJobsResponse{}
	for _, job := range r.(*v1.SubmitJobsRequest).Jobs {
		result := &v1.SubmitJobResult{Job: &v1.SubmitJobResponse{JobId: "job_" + job.Name, Status: v1.JobStatus_PENDING, EstimatedWaitSeconds: proto.Float64(1.5)}}
		switch job.Name {
		case "refused":
			result = &v1.SubmitJobResult{Code: int32(codes.InvalidArgument), Message: "cwd is required"}
		case "broken":
			result = &v1.SubmitJobResult{Code: int32(codes.Internal), Message: "secret detail"}
		}
		reply.Results = append(reply.Results, result)
	}
	return reply, nil
}

func TestBatch_oneResultForEachInOrder(t *testing.T) {
	c := newScripted(t)
	c.on("SubmitJobs", takesAll)
	g := newGate(t, testConfig(c))
	a := g.do("POST", prefix+"/jobs/batch", `{"jobs":[{"name":"a"},{"nmae":"b"},{"name":"refused"},{"name":"c","data_config":{"zip":1}},{"name":"broken"},7],`+
		`"idempotency_keys":["ka","kb","kr","kc","kx","k7"]}`)
	require.Equal(t, 207, a.code, a.body)
	require.JSONEq(t, `{"accepted":2,"refused":4,"results":[
	  {"http_status":201,"job_id":"job_a","status":"PENDING","message":"","estimated_wait_seconds":1.5},
	  {"http_status":422,"error":{"code":"VALIDATION_ERROR","message":"nmae: unknown field; did you mean name? (and 1 more)","details":[
	    {"field":"nmae","message":"unknown field; did you mean name?"},{"field":"name","message":"is required: a label for people, such as \"support-lora-v3\""}]}},
	  {"http_status":400,"error":{"code":"INVALID_ARGUMENT","message":"cwd is required"}},
	  {"http_status":201,"job_id":"job_c","status":"PENDING","message":"ignored unknown fields: data_config.zip","estimated_wait_seconds":1.5},
	  {"http_status":500,"error":{"code":"INTERNAL","message":"internal error; the gateway's log has the details under the request id"}},
	  {"http_status":422,"error":{"code":"VALIDATION_ERROR","message":"must be an object, not a number","details":[{"field":"body","message":"must be an object, not a number"}]}}]}`,
		string(a.Data))
	request := c.seen()[0].request.(*v1.SubmitJobsRequest)
	require.Equal(t, []string{"ka", "kr", "kc", "kx"}, request.IdempotencyKeys, "keys stay with their jobs")
}

func TestBatch_onlyFaultyJobsLeadToNoCall(t *testing.T) {
	c := newScripted(t)
	g := newGate(t, testConfig(c))
	a := g.do("POST", prefix+"/jobs/batch", `{"jobs":[{}]}`)
	require.Equal(t, 207, a.code)
	require.Empty(t, c.seen())
}

func TestBatch_badInput(t *testing.T) {
	c := newScripted(t)
	c.on("SubmitJobs", takesAll)
	g := newGate(t, testConfig(c))
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
			a := g.do("POST", prefix+"/jobs/batch", tc.body)
			require.Equal(t, 422, a.code, a.body)
			require.Equal(t, tc.field, a.Error.Details[0].Field)
		})
	}
	require.Empty(t, c.seen())
	require.Equal(t, 207, g.do("POST", prefix+"/jobs/batch", many(1000)).code)
}

func TestBatch_aCoordinatorThatAnswersTheWrongNumber(t *testing.T) {
	c := newScripted(t)
	c.on("SubmitJobs", func(context.Context, any) (any, error) { return &v1.SubmitJobsResponse{}, nil })
	require.Equal(t, 500, newGate(t, testConfig(c)).do("POST", prefix+"/jobs/batch", `{"jobs":[{"name":"x"}]}`).code)
}
