package rest

import (
	"errors"
	"log/slog"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/status"
)

// retryAfter is the Retry-After header in seconds; 0: none.
var retryAfter = map[codes.Code]int{codes.Unavailable: 1, codes.ResourceExhausted: 1}

// Fail answers with an error.
func (x *Request) Fail(err error) { x.Refuse(x.ProblemOf(err)) }

// ProblemOf returns a problem unchanged, and translates any other error as a failed call to a coordinator.
func (x *Request) ProblemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return x.translate(err)
}

// translate turns a coordinator's error into the problem that a caller may see.
func (x *Request) translate(err error) *Problem { return x.Explain(err, x.Answer.Outcome) }

// Explain is like translate, for an error with a known outcome.
func (x *Request) Explain(err error, outcome string) *Problem {
	s := grpcstatus.Convert(err)
	entry := status.OfOutcome(s.Code(), outcome)
	x.Server.Metrics.CoordinatorErrors.WithLabelValues(status.CodeName(s.Code())).Inc()
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
		if x.R.Context().Err() == nil { // otherwise the caller hung up, which is not a coordinator's error
			x.Server.Log.LogAttrs(x.R.Context(), level, "coordinator error", slog.String("event", "scaimind_coordinator_error"),
				slog.String("request_id", x.RequestID), slog.String("tenant_id", x.Tenant()), slog.String("route", x.Route.Name),
				slog.String("code", status.CodeName(s.Code())), slog.String("raw_detail", s.Message()))
		}
	}
	p := &Problem{HTTP: entry.HTTP, Code: entry.Code, Message: message, RetryAfter: retryAfter[s.Code()], Coordinators: true}
	if outcome == status.QuotaExceeded {
		p.RetryAfter = 0 // waiting alone does not help, so no time for a retry is given
	}
	return p
}

// advice returns what the caller can do after a call failed because no coordinator accepted it. Only a write can have
// taken effect.
func (x *Request) advice(outcome string) string {
	switch {
	case !x.Route.Write && x.staleRead():
		return "; try again"
	case !x.Route.Write:
		return "; try again, or read from one coordinator with consistency=stale"
	case outcome == status.NotSent:
		return "; nothing was changed: try again"
	case x.R.Header.Get(HeaderIdempotencyKey) != "":
		return "; it may have taken effect: try again with the same Idempotency-Key"
	default:
		return "; it may have taken effect: check before you try again, and send an Idempotency-Key with writes that you may have to repeat"
	}
}

// staleRead reports whether the caller asked for a stale read.
func (x *Request) staleRead() bool {
	consistency, err := x.Consistency()
	return err == nil && consistency == status.Stale
}

func (x *Request) Tenant() string {
	if x.Caller == nil {
		return ""
	}
	return x.Caller.Tenant
}
