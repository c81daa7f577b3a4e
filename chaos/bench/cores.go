package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/procs"
)

// program has a flow for each row about executions.
const program = `{"schema_version": "0.1", "name": "bench", "flows": [
	{"name": "one", "body": [{"kind": "rigid", "id": "one", "statements": [{"kind": "return", "value": "input.n + 1"}]}]},
	{"name": "calls", "body": [
		{"kind": "rigid", "id": "begin", "statements": [{"kind": "assign", "name": "n", "value": "0"}]},
		{"kind": "while", "id": "loop", "when": "n < input.n", "max_iterations": 100000, "body": [
			{"kind": "core_call", "id": "call", "target": "self", "flow": "one", "input_bindings": {"n": "n"}, "result_binding": "n"}]}]},
	{"name": "rest", "body": [{"kind": "wait", "id": "rest", "until": "input.at"}]},
	{"name": "crowd", "body": [
		{"kind": "foreach", "id": "each", "items": "range(input.n)", "max_concurrent": 250, "collect": "1", "body": [
			{"kind": "core_call", "id": "start", "target": "self", "flow": "rest", "is_async": true, "input_bindings": {"at": "input.at"}}]},
		{"kind": "rigid", "id": "end", "statements": [{"kind": "return", "value": "size(each)"}]}]}]}`

// hosted is a Core that runs the program, and a client of it.
type hosted struct {
	cores v1.CoreServiceClient
	// leader is the base of the URLs of the coordinator that leads.
	leader string
	close  func()
}

// host makes a Core of the program and waits until it runs.
func host(ctx context.Context, c *procs.Cluster) (*hosted, error) {
	conn, err := connect(c)
	if err != nil {
		return nil, err
	}
	leader, err := c.Leader(ctx)
	if err != nil {
		return nil, err
	}
	h := &hosted{cores: v1.NewCoreServiceClient(conn), leader: "http://" + leader.HTTPAddr, close: func() { _ = conn.Close() }}
	var source structpb.Struct
	if err := source.UnmarshalJSON([]byte(program)); err != nil {
		return nil, fmt.Errorf("reading the program of the rows: %w", err)
	}
	if _, err := h.cores.CreateCore(call(ctx), &v1.CreateCoreRequest{Name: "bench", Source: &source}); err != nil {
		return nil, fmt.Errorf("making a Core: %w", err)
	}
	if _, err := h.cores.StartCore(call(ctx), &v1.StartCoreRequest{CoreId: "bench"}); err != nil {
		return nil, fmt.Errorf("starting the Core: %w", err)
	}
	for {
		got, err := h.cores.GetCore(call(ctx), &v1.GetCoreRequest{CoreId: "bench"})
		if err != nil {
			return nil, err
		}
		if got.GetCore().GetStatus() == "running" {
			return h, nil
		}
		if err := rest(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// invoke starts an execution of a flow; with wait it requires that the execution completes.
func (h *hosted) invoke(ctx context.Context, flow string, input map[string]any, wait bool) (*v1.Execution, error) {
	value, err := structpb.NewValue(input)
	if err != nil {
		return nil, err
	}
	request := &v1.InvokeCoreRequest{CoreId: "bench", Flow: flow, Input: value}
	if !wait {
		request.WaitSeconds = new(int32)
	}
	got, err := h.cores.InvokeCore(call(ctx), request)
	if err != nil {
		return nil, fmt.Errorf("calling the flow %s: %w", flow, err)
	}
	if e := got.GetExecution(); wait && e.GetStatus() != "completed" {
		return nil, fmt.Errorf("%s of the flow %s is %s: %v", e.GetExecutionId(), flow, e.GetStatus(), e.GetError())
	}
	return got.GetExecution(), nil
}

// crowd starts executions that wait until a time, and returns when all of them wait.
func (h *hosted) crowd(ctx context.Context, n int, until time.Time) error {
	const together = 1000
	for range n / together {
		if _, err := h.invoke(ctx, "crowd", map[string]any{"n": together, "at": until.Unix()}, true); err != nil {
			return err
		}
	}
	for {
		waiting, err := h.count(ctx, "waiting")
		if err != nil || waiting == n {
			return err
		}
		if err := rest(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d executions wait, of %d: %w", waiting, n, err)
		}
	}
}

// count is the number of executions with a status.
func (h *hosted) count(ctx context.Context, status string) (int, error) {
	n, err := procs.Gauge(ctx, h.leader, fmt.Sprintf("mind_executions{status=%q}", status))
	return int(n), err
}

// one calls the flow with one step that needs no job, and waits for its end.
func (h *hosted) one(ctx context.Context) error {
	_, err := h.invoke(ctx, "one", map[string]any{"n": 1}, true)
	return err
}
