package conformance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// methods checks that other methods are refused with an answer that lists the allowed ones, and that OPTIONS answers
// with that list.
func (s *suite) methods(ctx context.Context, e *endpoint) error {
	a, err := s.expect(ctx, &endpoint{name: e.name, open: e.open}, "TRACE", request{method: "TRACE", path: e.path("x"), token: s.own.all}, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	if err != nil {
		return err
	}
	s.allows("TRACE", e, a)
	a, err = s.expect(ctx, &endpoint{name: e.name, open: e.open, raw: true}, "OPTIONS", request{method: "OPTIONS", path: e.path("x")}, http.StatusNoContent, "")
	if err != nil {
		return err
	}
	s.allows("OPTIONS", e, a)
	return nil
}

// allows checks the header Allow: the endpoint's method, and HEAD if GET is allowed and is neither a stream nor a WebSocket.
func (s *suite) allows(what string, e *endpoint, a *answer) {
	allowed := strings.Split(a.header.Get("Allow"), ", ")
	if !slices.Contains(allowed, e.method()) || !slices.Contains(allowed, "OPTIONS") ||
		e.method() == "GET" && slices.Contains(allowed, "HEAD") == (e.stream || e.socket) {
		s.breaks("%s: the header Allow says %q", what, a.header.Get("Allow"))
	}
}

// head checks that HEAD answers like GET, without a body; streams and WebSockets have no HEAD.
func (s *suite) head(ctx context.Context, e *endpoint) error {
	if e.method() != "GET" {
		return nil
	}
	unknown := request{path: e.path("x"), token: s.token(e)}
	if e.stream || e.socket {
		unknown.method = "HEAD"
		_, err := s.expect(ctx, &endpoint{name: e.name, open: e.open, raw: true}, "HEAD", unknown, http.StatusMethodNotAllowed, "")
		return err
	}
	asked := []request{unknown}
	if e.skip == "" {
		good, err := s.example(ctx, e, s.own)
		if err != nil {
			return err
		}
		asked = append(asked, good)
	}
	for _, r := range asked {
		r.method = "GET"
		get, err := s.target.do(ctx, r)
		if err != nil {
			return fmt.Errorf("GET, to compare HEAD with: %w", err)
		}
		r.method = "HEAD"
		head, err := s.expect(ctx, &endpoint{name: e.name, open: e.open, raw: true}, "HEAD", r, get.code, "")
		if err != nil {
			return err
		}
		switch {
		case len(head.raw) > 0:
			s.breaks("HEAD: an answer with a body")
		case head.header.Get("Content-Type") != get.header.Get("Content-Type"):
			s.breaks("HEAD: Content-Type %q instead of %q", head.header.Get("Content-Type"), get.header.Get("Content-Type"))
		case head.header.Get("X-Request-Id") == "" || head.header.Get("X-Mind-Index") == "":
			s.breaks("HEAD: an answer without X-Request-Id and X-Mind-Index")
		}
	}
	return nil
}
