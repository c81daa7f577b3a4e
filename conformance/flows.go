package conformance

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

const flowPrefix = "/v1/flows"

var (
	flowFields    = []string{"id", "name", "description", "owner_id", "tenant_id", "version", "created_at", "updated_at", "level", "content"}
	flowACLFields = []string{"id", "flow_id", "principal_type", "principal_id", "level", "granted_by", "granted_at"}
	// flowRights are the rights on a flow; each has those before it.
	flowRights = []string{"none", "view", "edit", "deploy", "admin"}
)

// flowEndpoints are those of ScaiFlow, below both prefixes that were published. The OpenAPI document has the second as an alias.
var flowEndpoints = func() []endpoint {
	all := []endpoint{
		{name: "GET " + flowPrefix, may: coreView, code: 200, published: true, query: "search=conf&limit=5&offset=0", has: []string{"items", "total"}},
		{name: "POST " + flowPrefix, may: coreManage, code: 201, published: true, body: newFlowBody, has: flowFields},
		{name: "GET " + flowPrefix + "/{flow_id}", may: coreView, code: 200, published: true, id: madeFlow, right: "view", has: flowFields},
		{name: "PUT " + flowPrefix + "/{flow_id}", may: coreManage, code: 200, published: true, id: madeFlow, right: "edit", body: func(*party) any { return map[string]any{"description": "changed"} }, has: flowFields},
		{name: "DELETE " + flowPrefix + "/{flow_id}", may: coreManage, code: 204, published: true, id: madeFlow, right: "admin"},
		{name: "GET " + flowPrefix + "/{flow_id}/versions", may: coreView, code: 200, id: madeFlow, right: "view", has: []string{"items", "total"}},
		{name: "GET " + flowPrefix + "/{flow_id}/versions/{version}", may: coreView, code: 200, id: madeVersion, right: "view", has: []string{"version", "sha256", "size_bytes", "created_by", "created_at", "content"}},
		{name: "GET " + flowPrefix + "/{flow_id}/deployments", may: coreView, code: 200, published: true, id: madeFlow, right: "view", has: []string{"items", "total"}},
		{name: "GET " + flowPrefix + "/kinds", may: coreView, code: 200, shared: true, has: []string{"kinds", "categories", "functions"}},
		{name: "POST " + flowPrefix + "/expressions", may: coreView, code: 200, body: func(*party) any { return map[string]any{"text": "a > 1"} }, has: []string{"problems", "names"}},
		{name: "POST " + flowPrefix + "/validate", may: coreView, code: 200, published: true, body: func(*party) any { return map[string]any{"content": flowContent} }, has: []string{"valid", "diagnostics"}},
		{name: "POST " + flowPrefix + "/compile", may: coreView, code: 200, published: true, body: func(*party) any { return map[string]any{"content": flowContent, "format": "ir"} }, has: []string{"format", "body", "errors"}},
		{name: "POST " + flowPrefix + "/{flow_id}/run-tests", may: coreManage, code: 200, id: madeFlow, right: "deploy", body: empty, bodyOptional: true, has: []string{"passed", "failed", "results"}},
		{name: "POST " + flowPrefix + "/{flow_id}/deploy", may: coreManage, code: 200, published: true, id: madeFlow, right: "deploy", body: func(*party) any {
			return map[string]any{"start": false}
		}, bodyOptional: true, has: []string{"deployment_id", "core_id", "core_slug", "core_version", "published_slug", "warnings"}},
		{name: "GET " + flowPrefix + "/{flow_id}/acls", may: coreView, code: 200, published: true, id: madeFlow, right: "admin"},
		{name: "POST " + flowPrefix + "/{flow_id}/acls", may: coreManage, code: 201, published: true, id: madeFlow, right: "admin", body: func(*party) any {
			return map[string]any{"principal_type": "group", "principal_id": "conformance", "level": "edit"}
		}, has: flowACLFields},
		{name: "PATCH " + flowPrefix + "/{flow_id}/acls/{acl_id}", may: coreManage, code: 200, id: madeACL, right: "admin", body: func(*party) any {
			return map[string]any{"level": "view"}
		}, has: flowACLFields},
		{name: "DELETE " + flowPrefix + "/{flow_id}/acls/{acl_id}", may: coreManage, code: 204, published: true, id: madeACL, right: "admin"},
	}
	for _, e := range slices.Clone(all) {
		e.name, e.published, e.right = strings.Replace(e.name, " /", " /api/", 1), false, ""
		all = append(all, e)
	}
	return all
}()

// bare reports whether answers of a path have no envelope.
func bare(path string) bool { return strings.HasPrefix(strings.TrimPrefix(path, "/api"), flowPrefix) }

// readBare reads an answer without an envelope, so that what holds for all answers can be checked in it, too.
func (a *answer) readBare() {
	a.requestID = a.header.Get("X-Request-Id")
	var fault struct {
		Detail struct {
			Error   string                            `json:"error"`
			Message string                            `json:"message"`
			Details []struct{ Field, Message string } `json:"details"`
		} `json:"detail"`
	}
	switch {
	case a.code < 400 && (a.code == http.StatusNoContent || json.Valid(a.raw)):
		a.status, a.data = "ok", a.raw
	case json.Unmarshal(a.raw, &fault) == nil && fault.Detail.Error == strings.ToLower(fault.Detail.Error):
		a.status, a.message, a.details = "error", fault.Detail.Message, fault.Detail.Details
		a.errorCode = strings.ToUpper(fault.Detail.Error)
	}
}

func newFlowBody(*party) any {
	// The Core that it is deployed to has its name.
	return map[string]any{"name": "conformance-" + strings.ToLower(rand.Text()), "content": flowContent}
}

// flowContent is a flow with one test, which passes.
var flowContent = map[string]any{
	"name": "conformance", "config": map[string]any{},
	"nodes": []any{
		map[string]any{"id": "start", "type": "entry_api", "label": "Start", "position": map[string]any{"x": 0, "y": 0}},
		map[string]any{"id": "hello", "type": "llm_rigid", "label": "Hello", "position": map[string]any{"x": 200, "y": 0}, "config": map[string]any{"template": "Hello {{request.name}}"}},
	},
	"edges": []any{map[string]any{
		"id": "e", "type": "sequential", "source": map[string]any{"node": "start", "port": "out_request"}, "target": map[string]any{"node": "hello", "port": "in"},
	}},
	"tests": []any{map[string]any{"name": "Ada", "input": map[string]any{"name": "Ada"}, "expect": map[string]any{"output": "Hello Ada"}}},
}

func madeFlow(ctx context.Context, p *party) (string, error) {
	var made struct {
		ID string `json:"id"`
	}
	err := p.target.must(ctx, request{method: "POST", path: flowPrefix, token: p.all, body: newFlowBody(p)}, 201, &made)
	if err == nil {
		p.flows = append(p.flows, made.ID)
	}
	return made.ID, err
}

// madeVersion is a flow and its first version.
func madeVersion(ctx context.Context, p *party) (string, error) {
	id, err := madeFlow(ctx, p)
	return id + "/0.1.0", err
}

// madeACL is a flow and a right on it.
func madeACL(ctx context.Context, p *party) (string, error) {
	id, err := madeFlow(ctx, p)
	if err != nil {
		return "", err
	}
	acl, err := p.grant(ctx, id, "somebody", "view")
	return id + "/" + acl, err
}

func (p *party) grant(ctx context.Context, flow, user, level string) (id string, err error) {
	var made struct {
		ID string `json:"id"`
	}
	body := map[string]any{"principal_type": "user", "principal_id": user, "level": level}
	err = p.target.must(ctx, request{method: "POST", path: flowPrefix + "/" + flow + "/acls", token: p.all, body: body}, 201, &made)
	return made.ID, err
}

// rights makes the call of an endpoint of flows with each right of a user who has every permission but that of administrators.
func (s *suite) rights(ctx context.Context, e *endpoint) error {
	if e.right == "" {
		return nil
	}
	for _, has := range flowRights {
		r, err := s.example(ctx, e, s.own)
		if err != nil {
			return err
		}
		flow, _, _ := strings.Cut(strings.TrimPrefix(r.path, flowPrefix+"/"), "/")
		if has != "none" {
			if _, err := s.own.grant(ctx, flow, guest, has); err != nil {
				return err
			}
		}
		want, code := e.code, ""
		switch {
		case has == "none":
			want, code = http.StatusNotFound, "NOT_FOUND"
		case slices.Index(flowRights, has) < slices.Index(flowRights, e.right):
			want, code = http.StatusForbidden, "PERMISSION_DENIED"
		}
		r.token = s.own.guest
		if _, err := s.expect(ctx, e, "a user with the right "+has, r, want, code); err != nil {
			return err
		}
	}
	return nil
}

// saves checks that a content is saved only over the version that it was made from, and that the answer says which that is.
func (s *suite) saves(ctx context.Context, e *endpoint) error {
	if !strings.HasPrefix(e.name, "PUT ") || !bare(e.template()) {
		return nil
	}
	id, err := madeFlow(ctx, s.own)
	if err != nil {
		return err
	}
	save := func(what, tag string, n int, code int, fault string) (*answer, error) {
		r := request{path: e.path(id), token: s.own.all, body: map[string]any{"content": map[string]any{"n": n}}}
		if tag != "" {
			r.header = map[string]string{"If-Match": tag}
		}
		return s.expect(ctx, e, what, r, code, fault)
	}
	if _, err := save("a content without If-Match", "", 1, http.StatusConflict, "VERSION_CONFLICT"); err != nil {
		return err
	}
	a, err := save("a content over the current version", `"0.1.0"`, 1, http.StatusOK, "")
	if err != nil {
		return err
	}
	if tag := a.header.Get("ETag"); tag != `"0.1.1"` {
		s.breaks("the ETag of a saved flow is %s instead of \"0.1.1\"", tag)
	}
	if _, err := save("the same content again", `"0.1.0"`, 1, http.StatusOK, ""); err != nil {
		return err
	}
	a, err = save("a content over an older version", `"0.1.0"`, 2, http.StatusConflict, "VERSION_CONFLICT")
	if err == nil && !strings.Contains(string(a.raw), `"current_version":"0.1.1"`) {
		s.breaks("a conflict does not say the current version: %s", clip(a.raw))
	}
	if err != nil {
		return err
	}
	r := request{path: e.path(id), token: s.own.all, body: map[string]any{"name": "renamed"}, header: map[string]string{"If-Match": `"0.1.0"`}}
	if _, err := s.expect(ctx, e, "a name over an older version", r, http.StatusConflict, "VERSION_CONFLICT"); err != nil {
		return err
	}
	r.header["If-Match"] = "*"
	_, err = s.expect(ctx, e, "a name over any version", r, http.StatusOK, "")
	return err
}

// leaveFlows deletes the flows of the party.
func (p *party) leaveFlows(ctx context.Context) error {
	for _, id := range p.flows {
		if _, err := p.target.do(ctx, request{method: "DELETE", path: flowPrefix + "/" + id, token: p.all}); err != nil {
			return err
		}
	}
	return nil
}
