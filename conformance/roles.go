package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// identity checks that every request without a valid token is refused, whatever else it contains.
func (s *suite) identity(ctx context.Context, e *endpoint) error {
	if e.open {
		return nil
	}
	path := e.path("nothing")
	broken := []byte("{")
	for what, header := range map[string]string{
		"Basic instead of Bearer": "Basic " + s.own.all, "no scheme": s.own.all, "an empty token": "Bearer ", "an unknown token": "Bearer sgk_" + strings.Repeat("x", 43),
		"a token that is not a JWT": "Bearer eyJhbGciOiJub25lIn0.e30.", "a very long token": "Bearer " + strings.Repeat("y", 10_000), "no token": "",
	} {
		r := request{path: path, body: broken}
		if header != "" {
			r.header = map[string]string{"Authorization": header}
		}
		if e.method() == "GET" {
			r.body = nil
		}
		a, err := s.expect(ctx, e, what, r, http.StatusUnauthorized, "")
		if err != nil {
			return err
		}
		if !slices.Contains([]string{"AUTH_TOKEN_MISSING", "AUTH_TOKEN_INVALID"}, a.errorCode) {
			s.breaks("%s: error.code %s", what, a.errorCode)
		}
		if what == "no token" && a.errorCode != "AUTH_TOKEN_MISSING" {
			s.breaks("no token: error.code %s", a.errorCode)
		}
	}
	return nil
}

// roles checks each permission alone. With a permission that does not allow the endpoint, the request is refused before
// it is read; with one that does, it is not refused.
func (s *suite) roles(ctx context.Context, e *endpoint) error {
	if e.open || len(e.may) == 0 {
		return nil
	}
	id := s.placeholder(e)
	for _, permission := range permissions {
		r := request{path: e.path(id), token: s.own.only[permission]}
		if e.method() != "GET" {
			r.body = []byte("{")
		}
		if !slices.Contains(e.may, permission) {
			if _, err := s.expect(ctx, e, "with "+permission+" alone", r, http.StatusForbidden, "AUTHZ_PERMISSION_DENIED"); err != nil {
				return err
			}
			continue
		}
		if e.skip != "" && e.method() == "GET" {
			continue
		}
		// The answer about an invalid body or a missing object shows that the permission was accepted.
		r.query = e.query
		a, err := s.target.do(ctx, withMethod(r, e))
		if err != nil {
			return err
		}
		s.row.Checks++
		s.row.Codes[a.code]++
		if a.code == http.StatusUnauthorized || a.code == http.StatusForbidden && !e.operator {
			s.breaks("with %s, which should be enough: HTTP %d: %s", permission, a.code, clip(a.raw))
		}
	}
	return nil
}

// tickets checks that a ticket opens an event stream once, and nothing else.
func (s *suite) tickets(ctx context.Context, e *endpoint) error {
	if e.open || e.method() != "GET" || e.skip != "" {
		return nil
	}
	r, err := s.example(ctx, e, s.own)
	if err != nil {
		return err
	}
	var made struct{ Ticket string }
	if err := s.target.must(ctx, request{method: "POST", path: "/v1/stream-tickets", token: s.own.all}, 201, &made); err != nil {
		return err
	}
	r.token = ""
	r.query = strings.TrimPrefix(r.query+"&ticket="+made.Ticket, "&")
	if !e.stream {
		_, err = s.expect(ctx, e, "with a ticket", r, http.StatusUnauthorized, "AUTH_TOKEN_MISSING")
		return err
	}
	if _, err := s.expect(ctx, e, "with a ticket", r, e.code, ""); err != nil {
		return err
	}
	_, err = s.expect(ctx, e, "with a ticket that was used", r, http.StatusUnauthorized, "AUTH_TOKEN_INVALID")
	return err
}

// secrets checks that callers who may only view do not see the secrets of jobs, and that callers who may manage jobs do.
func (s *suite) secrets(ctx context.Context, e *endpoint) error {
	if slices.Contains(e.may, "scaicore:view") && e.method() == "GET" && e.skip == "" {
		return s.environments(ctx, e)
	}
	if e.method() != "GET" || e.open || e.stream || e.skip != "" || !slices.Contains(e.may, "scaimind:view") {
		return nil
	}
	r, err := s.example(ctx, e, s.own)
	if err != nil {
		return err
	}
	r.token = s.own.only["scaimind:view"]
	a, err := s.expect(ctx, e, "with scaimind:view alone, a good call", r, e.code, "")
	if err != nil {
		return err
	}
	if bytes.Contains(a.raw, []byte(secret)) {
		s.breaks("a caller who may only view sees the environment of a job: %s", clip(a.raw))
	}
	if e.name != "GET /jobs/{id}" {
		return nil
	}
	if !bytes.Contains(a.raw, []byte("CONFORMANCE_SECRET")) {
		s.breaks("a caller who may only view does not see the names of a job's variables: %s", clip(a.raw))
	}
	r.token = s.own.all
	if a, err = s.expect(ctx, e, "a good call", r, e.code, ""); err == nil && !bytes.Contains(a.raw, []byte(secret)) {
		s.breaks("a caller who may manage jobs does not see their environment: %s", clip(a.raw))
	}
	return err
}

// environments checks that the values of a Core's environment are shown to nobody.
func (s *suite) environments(ctx context.Context, e *endpoint) error {
	r, err := s.example(ctx, e, s.own)
	if err != nil {
		return err
	}
	r.query = "" // nothing is filtered
	a, err := s.expect(ctx, e, "a good call", r, e.code, "")
	if err == nil && bytes.Contains(a.raw, []byte(secret)) {
		s.breaks("a value of the environment of a Core is shown: %s", clip(a.raw))
	}
	return err
}

// placeholder returns an id for requests that should fail because of their permissions or their body. A tenant must be
// the caller's own: with another one a permission would be missing.
func (s *suite) placeholder(e *endpoint) string {
	if strings.Contains(e.name, "/tenants/") {
		return s.own.tenant
	}
	return "nothing"
}

func withMethod(r request, e *endpoint) request {
	r.method = e.method()
	return r
}

// unknownObjects checks the answers to ids of objects that do not exist.
func (s *suite) unknownObjects(ctx context.Context, e *endpoint) error {
	if !e.named() || e.makes() || strings.Contains(e.name, "/tenants/") {
		return nil // any tenant may have a quota
	}
	good := e.body
	for what, id := range map[string]string{
		"an unknown id": "job_0000000000000", "an id of another kind": "ckpt_0000000000000", "an invalid id": "nothing", "a long id": strings.Repeat("z", 300),
		"an id with quotes": "%27%22%3B--", "an id with a NUL": "a%00b", "an id that is not UTF-8": "%ff%fe", "dots": "..%2f..%2fetc", "spaces": "%20",
	} {
		r := request{path: e.path(id), token: s.token(e), query: e.query}
		if good != nil {
			r.body = good(s.own)
		}
		if _, err := s.expect(ctx, e, what, r, http.StatusNotFound, "NOT_FOUND"); err != nil {
			return err
		}
	}
	return nil
}

// foreignObjects checks that the answer about an object of another tenant is exactly that about a missing one.
func (s *suite) foreignObjects(ctx context.Context, e *endpoint) error {
	if !e.named() || e.shared || e.operator || e.id == nil || e.makes() || strings.Contains(e.name, "/tenants/") {
		return nil
	}
	id, err := e.id(ctx, s.other)
	if err != nil {
		return err
	}
	r := request{path: e.path(id), token: s.own.all, query: e.query}
	if e.body != nil {
		r.body = e.body(s.own)
	}
	foreign, err := s.expect(ctx, e, "another tenant's", r, http.StatusNotFound, "NOT_FOUND")
	if err != nil {
		return err
	}
	nobody := id[:len(id)-4] + "zzzz"
	r.path = e.path(nobody)
	unknown, err := s.expect(ctx, e, "nobody's", r, http.StatusNotFound, "NOT_FOUND")
	if err != nil {
		return err
	}
	if strings.ReplaceAll(foreign.message, id, "X") != strings.ReplaceAll(unknown.message, nobody, "X") {
		s.breaks("another tenant's object is answered differently from a missing one: %q, %q", foreign.message, unknown.message)
	}
	return nil
}

// fields checks that the data of an answer has the promised fields.
func (s *suite) fields(e *endpoint, a *answer) {
	if len(e.has) == 0 || a.code != e.code {
		return
	}
	var data map[string]json.RawMessage
	if err := json.Unmarshal(a.data, &data); err != nil {
		s.breaks("the data of a successful answer is not an object: %s", clip(a.data))
		return
	}
	for _, field := range e.has {
		if _, ok := data[field]; !ok {
			s.breaks("the answer has no %s", field)
		}
	}
}
