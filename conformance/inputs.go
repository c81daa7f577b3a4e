package conformance

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// bodies checks that invalid bodies are refused.
func (s *suite) bodies(ctx context.Context, e *endpoint) error {
	if e.body == nil || e.foreign {
		return nil
	}
	path := e.path(s.placeholder(e))
	if e.id != nil && e.skip == "" && e.shared {
		id, err := e.id(ctx, s.own)
		if err != nil {
			return err
		}
		path = e.path(id)
	}
	for _, c := range []struct {
		what string
		body []byte
		http int
		code string
	}{
		{"half an object", []byte(`{"a":`), 422, "VALIDATION_ERROR"},
		{"a list", []byte(`[]`), 422, "VALIDATION_ERROR"},
		{"a string", []byte(`"x"`), 422, "VALIDATION_ERROR"},
		{"a number", []byte(`12`), 422, "VALIDATION_ERROR"},
		{"text after the object", []byte(`{} {}`), 422, "VALIDATION_ERROR"},
		{"an unknown field", []byte(`{"no_such_field_here": 1}`), 422, "VALIDATION_ERROR"},
		{"no UTF-8", []byte("{\"name\": \"\xff\xfe\"}"), 422, "VALIDATION_ERROR"},
		{"a field without quotes", []byte(`{name: 1}`), 422, "VALIDATION_ERROR"},
		{"nested 10,000 deep", bytes.Repeat([]byte(`{"labels":`), 10_000), 422, "VALIDATION_ERROR"},
		{"lists 100,000 deep", bytes.Repeat([]byte(`[`), 100_000), 422, "VALIDATION_ERROR"},
		{"too long", append([]byte(`{"name":"`), bytes.Repeat([]byte("x"), 9<<20)...), 413, "PAYLOAD_TOO_LARGE"},
	} {
		a, err := s.expect(ctx, e, "a body that is "+c.what, request{path: path, token: s.token(e), body: c.body}, c.http, c.code)
		if err != nil {
			return err
		}
		if c.http == 422 && len(a.details) == 0 {
			s.breaks("a body that is %s: 422 without details", c.what)
		}
	}
	if err := s.severalFaults(ctx, e, path); err != nil {
		return err
	}
	return s.wrongTypes(ctx, e, path)
}

// severalFaults checks that one answer lists all faults of a request: those against the schema, and those in the
// values.
func (s *suite) severalFaults(ctx context.Context, e *endpoint, path string) error {
	a, err := s.expect(ctx, e, "two unknown fields", request{
		path: path, token: s.token(e), body: map[string]any{"no_such_field_here": 1, "nor_this_one_here": 2},
	}, http.StatusUnprocessableEntity, "VALIDATION_ERROR")
	if err != nil {
		return err
	}
	if len(a.details) < 2 {
		s.breaks("two unknown fields: the details name %d", len(a.details))
	}
	if e.name != "POST /jobs" {
		return nil
	}
	job := shellJob("exit 0")
	job["resource_config"], job["scheduling_config"] = map[string]any{"gpu_count": -1}, map[string]any{"priority": 11}
	a, err = s.expect(ctx, e, "a job with two faults", request{path: path, token: s.token(e), body: job}, http.StatusBadRequest, "INVALID_ARGUMENT")
	if err != nil {
		return err
	}
	if !strings.Contains(a.message, "resource_config.gpu_count: ") || !strings.Contains(a.message, "\nscheduling_config.priority: ") {
		s.breaks("a job with two faults: the message does not name both: %s", a.message)
	}
	return nil
}

// wrongTypes gives each field of the body's schema a value of every wrong type.
func (s *suite) wrongTypes(ctx context.Context, e *endpoint, path string) error {
	op, _ := s.document.Operation(e.method(), e.template())
	schema := s.document.BodySchema(op)
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[name].(map[string]any)
		property = s.document.Resolve(property)
		if anyValue(property) {
			continue
		}
		for kind, value := range map[string]any{
			"string": "text", "integer": 7, "boolean": true, "array": []any{map[string]any{}}, "object": map[string]any{"no_such_field_here": []any{}},
		} {
			if kind == property["type"] || kind == "integer" && property["type"] == "number" {
				continue
			}
			body, _ := e.body(s.own).(map[string]any)
			body = maps.Clone(body)
			body[name] = value
			what := fmt.Sprintf("%s that is a %s instead of a %v", name, kind, property["type"])
			a, err := s.expect(ctx, e, what, request{path: path, token: s.token(e), body: body}, http.StatusUnprocessableEntity, "VALIDATION_ERROR")
			if err != nil {
				return err
			}
			if a.code == 422 && !slices.ContainsFunc(a.details, func(d struct{ Field, Message string }) bool { return strings.HasPrefix(d.Field, name) }) {
				s.breaks("%s: the details do not name it: %s", what, clip(a.raw))
			}
		}
		if _, ok := property["enum"]; ok {
			body, _ := e.body(s.own).(map[string]any)
			body = maps.Clone(body)
			body[name] = "NO_SUCH_VALUE"
			if _, err := s.expect(ctx, e, name+" of an unknown value", request{path: path, token: s.token(e), body: body}, http.StatusUnprocessableEntity, "VALIDATION_ERROR"); err != nil {
				return err
			}
		}
	}
	return nil
}

// anyValue says whether a schema allows any value.
func anyValue(schema map[string]any) bool {
	return schema["type"] == nil && schema["enum"] == nil && schema["oneOf"] == nil
}

// queries checks that invalid values of each parameter of the query are refused.
func (s *suite) queries(ctx context.Context, e *endpoint) error {
	if e.open {
		return nil
	}
	op, _ := s.document.Operation(e.method(), e.template())
	id := s.placeholder(e)
	if e.id != nil && e.method() == "GET" {
		var err error
		if id, err = e.id(ctx, s.own); err != nil {
			return err
		}
	}
	for _, p := range op.Parameters {
		if p.In != "query" {
			continue
		}
		var wrong []string
		switch {
		case p.Schema["type"] == "integer":
			wrong = []string{"x", "1.5", "-1", "99999999999999999999"}
		case p.Schema["type"] == "boolean":
			wrong = []string{"perhaps"}
		case p.Schema["enum"] != nil || p.Name == "status":
			wrong = []string{"NO_SUCH_VALUE"}
		}
		for _, value := range wrong {
			query := p.Name + "=" + url.QueryEscape(value)
			if e.query != "" && !strings.Contains(e.query, p.Name+"=") {
				query = e.query + "&" + query
			}
			a, err := s.expect(ctx, e, fmt.Sprintf("?%s=%s", p.Name, value), request{path: e.path(id), token: s.token(e), query: query},
				http.StatusUnprocessableEntity, "VALIDATION_ERROR")
			if err != nil {
				return err
			}
			if a.code == 422 && (len(a.details) == 0 || a.details[0].Field != p.Name) {
				s.breaks("?%s=%s: the details do not name it: %s", p.Name, value, clip(a.raw))
			}
		}
	}
	return nil
}

// keys checks that a write with an idempotency key happens once, and that the key cannot be used for another write.
func (s *suite) keys(ctx context.Context, e *endpoint) error {
	if e.name != "POST /jobs" && e.name != "POST /jobs/batch" && e.name != "POST /evaluations" && !strings.HasSuffix(e.name, "/invoke") {
		return nil
	}
	key := map[string]string{"Idempotency-Key": "conformance-" + e.name}
	r := request{path: e.path(s.own.core), token: s.own.all, body: e.body(s.own), header: key}
	first, err := s.expect(ctx, e, "with a key", r, e.code, "")
	if err != nil {
		return err
	}
	again, err := s.expect(ctx, e, "with the key again", r, e.code, "")
	if err != nil {
		return err
	}
	if ids(first.raw) != ids(again.raw) {
		s.breaks("the same key made something else: %s, %s", clip(first.raw), clip(again.raw))
	}
	for what, value := range map[string]string{"a reserved key": "auto:x", "a long key": strings.Repeat("k", 300), "a key that is not ASCII": "ключ"} {
		r.header = map[string]string{"Idempotency-Key": value}
		if _, err := s.expect(ctx, e, what, r, http.StatusUnprocessableEntity, "VALIDATION_ERROR"); err != nil {
			return err
		}
	}
	other := map[string]any{"POST /jobs": shellJob("exit 1"), invokePath: map[string]any{"flow": "ask"}}[e.name]
	if other == nil {
		return nil
	}
	_, err = s.expect(ctx, e, "the key with another body", request{path: r.path, token: s.own.all, body: other, header: key}, http.StatusConflict, "ALREADY_EXISTS")
	if err == nil && e.name == invokePath {
		_, err = s.expect(ctx, e, "an execution that is not over", request{path: r.path, token: s.own.all, body: other}, http.StatusAccepted, "")
	}
	return err
}

// ids finds the ids of jobs, evaluations and executions in an answer.
func ids(raw []byte) string {
	var found []string
	for _, part := range strings.Split(string(raw), `"`) {
		if strings.HasPrefix(part, "job_") || strings.HasPrefix(part, "eval_") || strings.HasPrefix(part, "exec_") {
			found = append(found, part)
		}
	}
	return strings.Join(found, " ")
}
