package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/mindcoordinator/mind/examples/stage"
)

const api = stage.Modules + "scaicore"

// execution has the fields of an execution that the story tells of.
type execution struct {
	ID         string `json:"execution_id"`
	Flow       string `json:"flow"`
	Status     string `json:"status"`
	Output     any    `json:"output"`
	WaitingFor []struct {
		Step string `json:"step"`
		Kind string `json:"kind"`
		ID   string `json:"id"`
	} `json:"waiting_for"`
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (e *execution) over() bool {
	return e.Status == "completed" || e.Status == "failed" || e.Status == "canceled"
}

// decision is a question to people. REST calls it a checkpoint.
type decision struct {
	ID         string `json:"id"`
	Execution  string `json:"execution_id"`
	Prompt     string `json:"prompt"`
	Status     string `json:"status"`
	Resolution string `json:"resolution"`
	ResolvedBy string `json:"resolved_by"`
	Votes      []struct {
		User       string `json:"user_id"`
		Resolution string `json:"resolution"`
	} `json:"votes"`
}

// happening is an event of an execution.
type happening struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Payload   struct {
		Step string `json:"step"`
	} `json:"payload"`
}

// call starts an execution of a flow under an idempotency key, and waits for its end for some seconds.
func (s *story) call(ctx context.Context, flow, key string, input any, wait int) (e execution, err error) {
	body := map[string]any{"flow": flow, "input": input, "wait_seconds": wait}
	if err := s.REST.Do(ctx, http.MethodPost, api+"/cores/publish/invoke", key, body, &e); err != nil {
		return e, fmt.Errorf("calling the flow %s: %w", flow, err)
	}
	return e, nil
}

// until waits until happened accepts the execution.
func (s *story) until(ctx context.Context, what string, happened func(*execution) bool) (e execution, err error) {
	for {
		if err := s.REST.Get(ctx, api+"/executions/"+s.execution, &e); err != nil {
			return e, fmt.Errorf("waiting until %s: %w", what, err)
		}
		if happened(&e) {
			return e, nil
		}
		if e.over() {
			return e, fmt.Errorf("%s is %s before %s: %s %s", e.ID, e.Status, what, e.Error.Code, e.Error.Message)
		}
		if err := s.Cluster.Sleep(ctx, 20*time.Millisecond); err != nil {
			return e, fmt.Errorf("waiting until %s: %w", what, err)
		}
		e = execution{}
	}
}

// waitsFor waits until the execution waits for a thing of a kind in a step, and returns the id of the thing.
func (s *story) waitsFor(ctx context.Context, step, kind string) (id string, err error) {
	_, err = s.until(ctx, "it waits in the step "+step, func(e *execution) bool {
		for _, w := range e.WaitingFor {
			if w.Step == step && w.Kind == kind {
				id = w.ID
			}
		}
		return id != ""
	})
	return id, err
}

// asked waits until the execution asks a person.
func (s *story) asked(ctx context.Context) (d decision, err error) {
	id, err := s.waitsFor(ctx, "ask", "decision")
	if err != nil {
		return d, err
	}
	return d, s.REST.Get(ctx, api+"/checkpoints/"+id, &d)
}

// happened lists the events of the execution, the newest first.
func (s *story) happened(ctx context.Context) ([]happening, error) {
	var got struct {
		Events []happening `json:"events"`
	}
	err := s.REST.Get(ctx, api+"/events?limit=500&execution_id="+s.execution, &got)
	return got.Events, err
}
