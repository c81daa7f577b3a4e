package gateway_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

func TestDrain_answersTheNodeAndWhatBecomesOfItsJobs(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	at := timestamppb.New(time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC))
	c.On("DrainNode", func(context.Context, any) (any, error) {
		return &v1.DrainNodeResponse{
			Node: &v1.Node{NodeId: "n1", State: v1.NodeState_DRAINING, DrainDeadline: at},
			Effects: []*v1.DrainEffect{
				{JobId: "job_1", Name: "a", Effect: "is stopped at the deadline and requeued", StopsAt: at, ResumesFrom: "ckpt_1"},
				{Effect: "runs to its end"},
			},
		}, nil
	})
	a := gatewaytest.NewGate(t, gatewaytest.Config(c)).Do("POST", rest.Prefix+"/cluster/nodes/n1/drain", `{"deadline_seconds":60}`)
	require.Equal(t, 200, a.Code, a.Body)
	var got map[string]any
	require.NoError(t, json.Unmarshal(a.Data, &got))
	require.Equal(t, "n1", got["node_id"])
	require.Equal(t, "DRAINING", got["state"])
	require.Equal(t, "2026-01-31T08:00:00Z", got["drain_deadline"])
	require.Nil(t, got["unreachable_since"])
	require.Contains(t, got, "unreachable_since", "unset is null, not absent")
	require.Equal(t, []any{
		map[string]any{"job_id": "job_1", "name": "a", "effect": "is stopped at the deadline and requeued", "stops_at": "2026-01-31T08:00:00Z", "resumes_from": "ckpt_1"},
		map[string]any{"job_id": "", "name": "", "effect": "runs to its end", "stops_at": nil, "resumes_from": ""},
	}, got["effects"])

	c.On("DrainNode", func(context.Context, any) (any, error) {
		return &v1.DrainNodeResponse{Node: &v1.Node{NodeId: "n1"}}, nil
	})
	a = gatewaytest.NewGate(t, gatewaytest.Config(c)).Do("POST", rest.Prefix+"/nodes/n1/drain", "")
	require.Equal(t, 200, a.Code, a.Body)
	require.NoError(t, json.Unmarshal(a.Data, &got))
	require.Equal(t, []any{}, got["effects"])
	for body, field := range map[string]string{`{"dry_run":"yes"}`: "dry_run", `{"dryrun":true}`: "dryrun", `{"deadline_seconds":1.5}`: "deadline_seconds"} {
		a = gatewaytest.NewGate(t, gatewaytest.Config(c)).Do("POST", rest.Prefix+"/nodes/n1/drain", body)
		require.Equal(t, 422, a.Code, a.Body)
		require.Equal(t, field, a.Error.Details[0].Field)
	}
}

func TestForget_refusals(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	for code, want := range map[codes.Code]int{codes.FailedPrecondition: 409, codes.NotFound: 404} {
		c.On("ForgetNode", func(context.Context, any) (any, error) { return nil, grpcstatus.Error(code, "stop its agent first") })
		a := g.Do("DELETE", rest.Prefix+"/nodes/n1", "")
		require.Equal(t, want, a.Code, a.Body)
		require.Contains(t, a.Error.Message, "stop its agent first")
	}
	c.On("ForgetNode", func(context.Context, any) (any, error) { return &v1.ForgetNodeResponse{}, nil })
	a := g.Do("DELETE", rest.Prefix+"/nodes/n1", "")
	require.JSONEq(t, `{"node_id":"n1"}`, string(a.Data))
	a = g.Do("PUT", rest.Prefix+"/nodes/n1", "")
	require.Equal(t, 405, a.Code)
	require.Contains(t, a.Header.Get("Allow"), "DELETE")
}

func TestJob_showsItsRetriesAndPastAttempts(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	c.On("GetJob", func(context.Context, any) (any, error) {
		return &v1.GetJobResponse{Job: &v1.Job{JobId: "job_1", Retries: &v1.RetryCounts{NodeLost: 2, Drained: 1}, PastAttempts: []*v1.PastAttempt{
			{Attempt: 1, Nodes: []string{"n1", "n2"}, ErrorType: v1.ErrorType_NODE_LOST, Reason: "gone", FailedNode: "n2", StartedAt: timestamppb.New(time.Unix(0, 0))},
			{Attempt: 2, Nodes: []string{"n3"}, ExitCode: proto.Int32(3)},
		}}}, nil
	})
	a := gatewaytest.NewGate(t, gatewaytest.Config(c)).Do("GET", rest.Prefix+"/jobs/job_1", "")
	var got struct {
		Retries  map[string]int   `json:"retries"`
		Attempts []map[string]any `json:"past_attempts"`
	}
	require.NoError(t, json.Unmarshal(a.Data, &got))
	require.Equal(t, map[string]int{"node_lost": 2, "gpu_fault": 0, "launch_failed": 0, "data_fetch": 0, "exit": 0, "preempted": 0, "drained": 1}, got.Retries)
	require.Equal(t, map[string]any{
		"attempt": 1.0, "nodes": []any{"n1", "n2"}, "exit_code": nil, "error_type": "NODE_LOST", "reason": "gone",
		"started_at": "1970-01-01T00:00:00Z", "finished_at": nil, "failed_node": "n2",
	}, got.Attempts[0])
	require.Equal(t, 3.0, got.Attempts[1]["exit_code"])
	require.Nil(t, got.Attempts[1]["error_type"])
}
