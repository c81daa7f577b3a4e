package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/conformance/document"
)

// suite is one run of all checks.
type suite struct {
	target   Target
	document *document.Document
	own      *party
	other    *party
	row      *Row
}

// Run checks every endpoint and reports the results. It returns an error if it could not check, not for broken
// promises.
func Run(ctx context.Context, t Target) (report *Report, err error) {
	s := &suite{target: t}
	if s.document, err = loadDocument(ctx, t); err != nil {
		return nil, err
	}
	served := s.document.Names(prefix)
	evaluations := slices.Contains(served, "POST /evaluations")
	if s.own, err = newParty(ctx, t, evaluations); err != nil {
		return nil, fmt.Errorf("making a tenant to test with: %w", err)
	}
	defer func() { err = errors.Join(err, s.own.leave(context.WithoutCancel(ctx))) }()
	if s.other, err = newParty(ctx, t, evaluations); err != nil {
		return nil, fmt.Errorf("making a second tenant: %w", err)
	}
	defer func() { err = errors.Join(err, s.other.leave(context.WithoutCancel(ctx))) }()

	report = &Report{}
	for i := range endpoints {
		e := &endpoints[i]
		s.row = &Row{Endpoint: e.name, Published: e.published, Codes: map[int]int{}}
		if !slices.Contains(served, e.name) {
			s.breaks("it is not in the OpenAPI document")
		} else if err := s.endpoint(ctx, e); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		report.Rows = append(report.Rows, *s.row)
	}
	for _, name := range served {
		if !slices.ContainsFunc(endpoints, func(e endpoint) bool { return e.name == name }) {
			report.Rows = append(report.Rows, Row{Endpoint: name, Broken: []string{"it is served, but this suite does not know it"}})
		}
	}
	return report, nil
}

func (s *suite) breaks(format string, args ...any) {
	s.row.Broken = append(s.row.Broken, fmt.Sprintf(format, args...))
}

func (s *suite) endpoint(ctx context.Context, e *endpoint) error {
	op, _ := s.document.Operation(e.method(), e.template())
	if !e.open && !slices.Equal(slices.Sorted(slices.Values(op.Permissions)), slices.Sorted(slices.Values(e.may))) {
		s.breaks("the OpenAPI document says permissions %v instead of %v", op.Permissions, e.may)
	}
	if op.Ours == e.published && !e.open && !strings.HasSuffix(e.name, "/me") && !strings.HasSuffix(e.name, "/metrics") {
		s.breaks("the OpenAPI document says x-mind-choice %t", op.Ours)
	}
	for _, check := range []func(context.Context, *endpoint) error{
		s.identity, s.roles, s.success, s.secrets, s.tickets, s.unknownObjects, s.foreignObjects, s.foreignLists, s.methods, s.head, s.bodies, s.queries, s.keys, s.rights, s.saves,
	} {
		if err := check(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// expect sends a request and checks its answer: the HTTP code, error.code if code is not empty, and everything that
// holds for all answers.
func (s *suite) expect(ctx context.Context, e *endpoint, what string, r request, http int, code string) (*answer, error) {
	// This is much longer than any call should take.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if r.method == "" {
		r.method = e.method()
	}
	a, err := s.target.do(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	s.row.Checks++
	s.row.Codes[a.code]++
	switch {
	case a.code != http:
		s.breaks("%s: HTTP %d instead of %d: %s", what, a.code, http, clip(a.raw))
	case code != "" && a.errorCode != code:
		s.breaks("%s: error.code %q instead of %q: %s", what, a.errorCode, code, a.message)
	case !e.raw && !(e.stream && a.code == 200):
		if fault := a.enveloped(); fault != "" {
			s.breaks("%s: %s: %s", what, fault, clip(a.raw))
		}
	}
	if a.code != 405 && r.method == e.method() {
		if err := s.document.Answers(e.method(), e.template(), a.code, a.raw); err != nil {
			s.breaks("%s: %v", what, err)
		}
	}
	return a, nil
}

// token returns a token with which the endpoint's example succeeds.
func (s *suite) token(e *endpoint) string {
	if e.operator {
		return s.target.Token
	}
	return s.own.all
}

// example returns a request that succeeds.
func (s *suite) example(ctx context.Context, e *endpoint, p *party) (request, error) {
	r := request{query: e.query, token: s.token(e)}
	id := ""
	if e.id != nil {
		var err error
		if id, err = e.id(ctx, p); err != nil {
			return r, fmt.Errorf("preparing a call that succeeds: %w", err)
		}
	}
	r.path = e.path(id)
	if e.body != nil {
		r.body = e.body(p)
	}
	return r, nil
}

func (s *suite) success(ctx context.Context, e *endpoint) error {
	if e.skip != "" {
		s.row.Skipped = append(s.row.Skipped, "a call that succeeds: "+e.skip)
		return nil
	}
	r, err := s.example(ctx, e, s.own)
	if err != nil {
		return err
	}
	a, err := s.expect(ctx, e, "a good call", r, e.code, "")
	if err != nil {
		return err
	}
	s.fields(e, a)
	if e.stream && a.header.Get("Content-Type") != "text/event-stream" {
		s.breaks("a stream has Content-Type %s", a.header.Get("Content-Type"))
	}
	if e.bodyOptional {
		if r, err = s.example(ctx, e, s.own); err != nil {
			return err
		}
		if strings.HasSuffix(e.name, "/drain") { // without dry_run in the query it drains the node
			return nil
		}
		r.body = nil
		_, err = s.expect(ctx, e, "a good call without a body", r, e.code, "")
	}
	return err
}

// loadDocument reads the OpenAPI document of a gateway.
func loadDocument(ctx context.Context, t Target) (*document.Document, error) {
	a, err := t.do(ctx, request{method: "GET", path: "/openapi.json"})
	if err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document: %w", err)
	}
	if a.code != http.StatusOK {
		return nil, fmt.Errorf("reading the OpenAPI document: HTTP %d", a.code)
	}
	return document.Parse(a.raw)
}
