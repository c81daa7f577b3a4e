package gateway

import (
	"errors"
	"log/slog"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/status"
)

// retryAfter is the Retry-After header in seconds; 0: none.
var retryAfter = map[codes.Code]int{codes.Unavailable: 1, codes.ResourceExhausted: 1}

// fail answers with an error.
func (x *httpRequest) fail(err error) { x.refuse(x.problemOf(err)) }

// problemOf returns a problem unchanged, and translates any other error as a failed call to a coordinator.
func (x *httpRequest) problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	return x.translate(err)
}

// translate turns a coordinator's error into the problem that a caller may see.
func (x *httpRequest) translate(err error) *problem { return x.explain(err, x.answer.Outcome) }

// explain is like translate, for an error with a known outcome.
func (x *httpRequest) explain(err error, outcome string) *problem {
	s := grpcstatus.Convert(err)
	entry := status.OfOutcome(s.Code(), outcome)
	x.server.metrics.CoordinatorErrors.WithLabelValues(status.CodeName(s.Code())).Inc()
	message := s.Message()
	if entry.Policy != status.Pass {
		message = entry.Message
		if entry.Policy == status.Friendly {
			message += x.advice(outcome)
		}
		level := slog.LevelWarn
		if entry.Policy == status.Sanitise {
			level = slog.LevelError
		}
		if x.r.Context().Err() == nil { // otherwise the caller hung up, which is not a coordinator's error
			x.server.log.LogAttrs(x.r.Context(), level, "coordinator error", slog.String("event", "scaimind_coordinator_error"),
				slog.String("request_id", x.requestID), slog.String("tenant_id", x.tenant()), slog.String("route", x.route.name),
				slog.String("code", status.CodeName(s.Code())), slog.String("raw_detail", s.Message()))
		}
	}
	p := &problem{http: entry.HTTP, code: entry.Code, message: message, retryAfter: retryAfter[s.Code()], coordinators: true}
	if outcome == status.QuotaExceeded {
		p.retryAfter = 0 // waiting alone does not help, so no time for a retry is given
	}
	return p
}

// advice returns what the caller can do after a call failed because no coordinator accepted it. Only a write can have
// taken effect.
func (x *httpRequest) advice(outcome string) string {
	switch {
	case !x.route.write && x.staleRead():
		return "; try again"
	case !x.route.write:
		return "; try again, or read from one coordinator with consistency=stale"
	case outcome == status.NotSent:
		return "; nothing was changed: try again"
	case x.r.Header.Get(headerIdempotencyKey) != "":
		return "; it may have taken effect: try again with the same Idempotency-Key"
	default:
		return "; it may have taken effect: check before you try again, and send an Idempotency-Key with writes that you may have to repeat"
	}
}

// staleRead reports whether the caller asked for a stale read.
func (x *httpRequest) staleRead() bool {
	consistency, err := x.consistency()
	return err == nil && consistency == status.Stale
}

func (x *httpRequest) tenant() string {
	if x.caller == nil {
		return ""
	}
	return x.caller.Tenant
}
