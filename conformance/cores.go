package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/conformance/document"
)

const (
	corePrefix = "/v1/modules/scaicore"
	invokePath = "POST " + corePrefix + "/cores/{core_id}/invoke"
)

var (
	coreView    = []string{"scaicore:view", "scaicore:admin"}
	coreManage  = []string{"scaicore:manage", "scaicore:admin"}
	coreResolve = []string{"scaicore:checkpoint_resolve", "scaicore:admin"}
	// Callers who answer checkpoints see them.
	coreAsked = []string{"scaicore:view", "scaicore:checkpoint_resolve", "scaicore:admin"}

	coreFields = []string{
		"id", "name", "slug", "tenant_id", "user_id", "status", "error", "version", "source", "source_digest", "runtime_mode", "concurrency_mode",
		"checkpoint_mode", "environment_names", "created_at", "updated_at", "started_at", "revision",
	}
	executionFields = []string{
		"execution_id", "core_id", "core_slug", "version", "flow", "status", "input", "output", "error", "waiting_for", "steps", "parent_id", "trigger", "user_id",
		"retries", "created_at", "updated_at", "finished_at", "revision",
	}
	decisionFields = []string{
		"id", "core_id", "core_slug", "execution_id", "flow_name", "step", "checkpoint_type", "prompt", "options", "schema", "context", "status", "priority",
		"assignee_raw", "assignee_type", "expires_at", "quorum", "votes", "resolution", "resolved_by", "subject_digest", "created_at", "revision",
		"notification_sent", "notified_at", "notify_error",
	}
)

// coreEndpoints are those of ScaiCore.
var coreEndpoints = []endpoint{
	{name: "POST " + corePrefix + "/cores/parse-bundle", may: coreManage, code: 200, published: true, foreign: true, body: func(*party) any { return coreProgram() }, has: []string{"source", "summary", "diagnostics"}},
	{name: "POST " + corePrefix + "/cores", may: coreManage, code: 201, published: true, body: func(*party) any { return newCoreBody() }, has: coreFields},
	{name: "GET " + corePrefix + "/cores", may: coreView, code: 200, published: true, query: "limit=5", has: []string{"cores", "next_cursor"}},
	{name: "GET " + corePrefix + "/cores/{core_id}", may: coreView, code: 200, published: true, id: ownCore, has: coreFields},
	{name: "PUT " + corePrefix + "/cores/{core_id}", may: coreManage, code: 200, published: true, id: ownCore, body: func(*party) any { return map[string]any{"metadata": map[string]any{"team": "a"}} }, has: coreFields},
	{name: "DELETE " + corePrefix + "/cores/{core_id}", may: coreManage, code: 200, id: madeCore},
	{name: "POST " + corePrefix + "/cores/{core_id}/start", may: coreManage, code: 200, published: true, id: madeCore, body: empty, bodyOptional: true, has: coreFields},
	{name: "POST " + corePrefix + "/cores/{core_id}/stop", may: coreManage, code: 200, id: runningCore, body: empty, bodyOptional: true, has: coreFields},
	{name: "POST " + corePrefix + "/cores/{core_id}/restart", may: coreManage, code: 200, id: runningCore, body: empty, bodyOptional: true, has: coreFields},
	{name: "POST " + corePrefix + "/cores/{core_id}/pause", may: coreManage, code: 200, id: runningCore, body: empty, bodyOptional: true, has: coreFields},
	{name: "POST " + corePrefix + "/cores/{core_id}/resume", may: coreManage, code: 200, id: pausedCore, body: empty, bodyOptional: true, has: coreFields},
	{name: "POST " + corePrefix + "/cores/{core_id}/events", may: coreManage, code: 200, published: true, id: ownCore, body: func(*party) any { return map[string]any{"event_name": "conformance", "data": 1} }, has: []string{"status", "woken", "execution_ids"}},
	{name: invokePath, may: coreManage, code: 200, published: true, id: ownCore, body: func(*party) any { return map[string]any{"input": map[string]any{"n": 1}} }, bodyOptional: true, has: executionFields},
	{name: "GET " + corePrefix + "/events", may: coreView, code: 200, published: true, query: "limit=5", has: []string{"events", "next_cursor"}},

	{name: "GET " + corePrefix + "/executions", may: coreView, code: 200, query: "status=waiting&limit=5", has: []string{"executions", "next_cursor"}},
	{name: "GET " + corePrefix + "/executions/{id}", may: coreView, code: 200, id: ownExecution, has: executionFields},
	{name: "POST " + corePrefix + "/executions/{id}/cancel", may: coreManage, code: 200, id: asking, body: func(*party) any { return map[string]any{"reason": "conformance"} }, bodyOptional: true, has: executionFields},
	{name: "POST " + corePrefix + "/executions/{id}/pause", may: coreManage, code: 200, id: asking, body: empty, bodyOptional: true, has: executionFields},
	{name: "POST " + corePrefix + "/executions/{id}/resume", may: coreManage, code: 200, id: pausedExecution, body: empty, bodyOptional: true, has: executionFields},
	{name: "POST " + corePrefix + "/executions/{id}/retry", may: coreManage, code: 200, id: failedExecution, body: func(*party) any { return map[string]any{"from": "bad", "bindings": map[string]any{"a": 1}} }, bodyOptional: true, has: executionFields},
	{name: "POST " + corePrefix + "/executions/{id}/signal", may: coreManage, code: 200, id: listening, body: func(*party) any { return map[string]any{"name": "go", "data": []any{1}} }, has: executionFields},

	{name: "GET " + corePrefix + "/checkpoints", may: coreAsked, code: 200, query: "status=all&limit=5", has: []string{"checkpoints", "next_cursor"}},
	{name: "GET " + corePrefix + "/checkpoints/{id}", may: coreAsked, code: 200, id: ownDecision, has: decisionFields},
	{name: "POST " + corePrefix + "/checkpoints/{id}/resolve", may: coreResolve, code: 200, published: true, id: pending, body: func(*party) any { return map[string]any{"resolution": "yes", "comment": "conformance"} }, has: decisionFields},
	{name: "POST " + corePrefix + "/checkpoints/{id}/cancel", may: coreResolve, code: 200, id: pending, body: empty, bodyOptional: true, has: decisionFields},
	{name: "POST " + corePrefix + "/checkpoints/{id}/reassign", may: coreResolve, code: 200, id: pending, body: func(*party) any { return map[string]any{"assignee": "user:conformance"} }, has: decisionFields},
}

// coreProgram is a program of which each flow ends in another way: at once, with a question, with a failure, with an event.
func coreProgram() map[string]any {
	flow := func(name string, body ...any) any { return map[string]any{"name": name, "body": body} }
	return map[string]any{
		"schema_version": "0.1", "name": "conformance", "flows": []any{
			flow("main", map[string]any{"kind": "rigid", "id": "end", "statements": []any{map[string]any{"kind": "return", "value": "input"}}}),
			flow("ask", map[string]any{"kind": "checkpoint", "id": "ask", "prompt": "Shall it?", "options": []any{"yes", "no"}}),
			flow("bad", map[string]any{"kind": "rigid", "id": "bad", "statements": []any{map[string]any{"kind": "fail", "code": "BAD"}}}),
			flow("listen", map[string]any{"kind": "wait", "id": "listen", "event": "go"}),
		},
	}
}

// newCoreBody is the body of a Core with a name of its own. Events start nothing in it.
func newCoreBody() map[string]any {
	return map[string]any{
		"name": "conformance-" + strings.ToLower(rand.Text()), "runtime_mode": "api", "source": coreProgram(),
		"environment": map[string]any{"A": secret, "B": map[string]any{"type": "secret", "value": secret}},
	}
}

// foreignLists checks that lists of ScaiCore have nothing of another tenant, and that a filter by its Core is one by a missing one.
func (s *suite) foreignLists(ctx context.Context, e *endpoint) error {
	if e.method() != "GET" || e.named() || e.shared || e.skip != "" || !slices.Contains(e.may, "scaicore:view") {
		return nil
	}
	a, err := s.expect(ctx, e, "the whole list", request{path: e.path(""), token: s.own.all, query: "limit=500"}, http.StatusOK, "")
	if err != nil {
		return err
	}
	for _, id := range append([]string{s.other.core, s.other.execution, s.other.decision}, s.other.flows...) {
		if bytes.Contains(a.raw, []byte(id)) {
			s.breaks("it lists %s of another tenant", id)
		}
	}
	op, _ := s.document.Operation(e.method(), e.template())
	if !slices.ContainsFunc(op.Parameters, func(p document.Parameter) bool { return p.Name == "core_id" }) {
		return nil
	}
	if !bytes.Contains(a.raw, []byte(s.own.core)) {
		s.breaks("the whole list has nothing of the tenant's own Core %s: %s", s.own.core, clip(a.raw))
	}
	_, err = s.expect(ctx, e, "of a Core of another tenant", request{path: e.path(""), token: s.own.all, query: "core_id=" + s.other.core}, http.StatusNotFound, "NOT_FOUND")
	return err
}

func (p *party) post(ctx context.Context, path string, body, out any) error {
	code := 200
	if path == "/cores" {
		code = 201
	}
	return p.target.must(ctx, request{method: "POST", path: corePrefix + path, token: p.all, body: body}, code, out)
}

// ask makes the Core of the party, and an execution of it that waits for a decision.
func (p *party) ask(ctx context.Context) (err error) {
	if p.core, err = runningCore(ctx, p); err != nil {
		return err
	}
	p.execution, p.decision, err = p.asks(ctx)
	return err
}

func ownCore(_ context.Context, p *party) (string, error)      { return p.core, nil }
func ownExecution(_ context.Context, p *party) (string, error) { return p.execution, nil }
func ownDecision(_ context.Context, p *party) (string, error)  { return p.decision, nil }

// madeCore makes a Core that does not run.
func madeCore(ctx context.Context, p *party) (string, error) {
	var made struct {
		ID string `json:"id"`
	}
	err := p.post(ctx, "/cores", newCoreBody(), &made)
	if err == nil {
		p.cores = append(p.cores, made.ID)
	}
	return made.ID, err
}

func runningCore(ctx context.Context, p *party) (string, error) {
	id, err := madeCore(ctx, p)
	if err != nil {
		return "", err
	}
	if err := p.post(ctx, "/cores/"+id+"/start", nil, nil); err != nil {
		return "", err
	}
	return id, p.reaches(ctx, "/cores/"+id, "running")
}

func pausedCore(ctx context.Context, p *party) (string, error) {
	id, err := runningCore(ctx, p)
	if err != nil {
		return "", err
	}
	return id, p.post(ctx, "/cores/"+id+"/pause", nil, nil)
}

// reaches waits until a Core or an execution has a status.
func (p *party) reaches(ctx context.Context, path, status string) error {
	return poll(ctx, path+" to be "+status, func() (bool, error) {
		var got struct{ Status string }
		err := p.target.must(ctx, request{method: "GET", path: corePrefix + path, token: p.all}, 200, &got)
		if err == nil && slices.Contains([]string{"error", "crashed"}, got.Status) {
			err = fmt.Errorf("%s is %s", path, got.Status)
		}
		return got.Status == status, err
	})
}

// invoke starts an execution of a flow, and waits until it has a status.
func (p *party) invoke(ctx context.Context, flow, status string) (string, error) {
	var made struct {
		ID string `json:"execution_id"`
	}
	err := p.target.must(ctx, request{method: "POST", path: corePrefix + "/cores/" + p.core + "/invoke", token: p.all, body: map[string]any{"flow": flow, "wait_seconds": 0}}, 202, &made)
	if err != nil {
		return "", err
	}
	return made.ID, p.reaches(ctx, "/executions/"+made.ID, status)
}

// asks starts an execution that waits for a decision.
func (p *party) asks(ctx context.Context) (execution, decision string, err error) {
	if execution, err = p.invoke(ctx, "ask", "waiting"); err != nil {
		return "", "", err
	}
	var got struct {
		Waits []struct {
			ID string `json:"id"`
		} `json:"waiting_for"`
	}
	err = p.target.must(ctx, request{method: "GET", path: corePrefix + "/executions/" + execution, token: p.all}, 200, &got)
	if err == nil && len(got.Waits) != 1 {
		err = fmt.Errorf("%s waits for %d things instead of one", execution, len(got.Waits))
	}
	if err != nil {
		return "", "", err
	}
	return execution, got.Waits[0].ID, nil
}

func asking(ctx context.Context, p *party) (string, error) {
	id, _, err := p.asks(ctx)
	return id, err
}

func pending(ctx context.Context, p *party) (string, error) {
	_, id, err := p.asks(ctx)
	return id, err
}

func listening(ctx context.Context, p *party) (string, error) {
	return p.invoke(ctx, "listen", "waiting")
}

func failedExecution(ctx context.Context, p *party) (string, error) {
	return p.invoke(ctx, "bad", "failed")
}

func pausedExecution(ctx context.Context, p *party) (string, error) {
	id, err := asking(ctx, p)
	if err != nil {
		return "", err
	}
	if err := p.post(ctx, "/executions/"+id+"/pause", nil, nil); err != nil {
		return "", err
	}
	return id, p.reaches(ctx, "/executions/"+id, "paused")
}

// leaveCores cancels the executions of the party and stops its Cores.
func (p *party) leaveCores(ctx context.Context) error {
	var faults []error
	for _, status := range []string{"running", "waiting", "paused"} {
		var page struct {
			Executions []struct {
				ID string `json:"execution_id"`
			}
		}
		if err := p.target.must(ctx, request{method: "GET", path: corePrefix + "/executions", query: "limit=500&status=" + status, token: p.all}, 200, &page); err != nil {
			return err
		}
		for _, e := range page.Executions {
			faults = append(faults, p.quit(ctx, "/executions/"+e.ID+"/cancel", map[string]any{"force": true}))
		}
	}
	for _, id := range p.cores {
		faults = append(faults, p.quit(ctx, "/cores/"+id+"/stop", nil))
	}
	return errors.Join(faults...)
}

// quit ends something that may be over or gone already.
func (p *party) quit(ctx context.Context, path string, body any) error {
	a, err := p.target.do(ctx, request{method: "POST", path: corePrefix + path, token: p.all, body: body})
	if err == nil && !slices.Contains([]int{200, 404, 409}, a.code) {
		err = fmt.Errorf("%s: HTTP %d: %s", path, a.code, clip(a.raw))
	}
	return err
}
