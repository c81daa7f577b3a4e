package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/api/denials"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Time limits of a call that reports denials, and of the last one, for which the shutdown waits.
const (
	tellDenialsWithin     = 10 * time.Second
	tellLastDenialsWithin = time.Second
)

// noteDenial counts a request that this gateway itself refuses. Denied access is also reported to the coordinators for
// the audit log. Malformed and excess requests are not: they do not show that someone tried to get access.
func (x *httpRequest) noteDenial(p *problem) {
	if p.coordinators {
		return
	}
	outcome := ""
	switch p.http {
	case http.StatusUnauthorized:
		outcome = "UNAUTHENTICATED"
	case http.StatusForbidden:
		outcome = "PERMISSION_DENIED"
	case http.StatusUnprocessableEntity, http.StatusTooManyRequests:
	default:
		return
	}
	s := x.server
	s.metrics.Denied.WithLabelValues(cmp.Or(p.reason, p.code)).Inc()
	if outcome == "" {
		return
	}
	d := denials.Denial{Outcome: outcome, Reason: p.code, What: x.route.name, Address: s.proxies.ClientOf(x.r)}
	if x.caller != nil {
		d.Tenant, d.User, d.Token = x.caller.Tenant, x.caller.User, x.caller.Token
	}
	if s.denied.Note(d, x.requestID, time.Now()) {
		s.log.LogAttrs(x.r.Context(), slog.LevelWarn, "access denied", slog.String("event", "scaimind_access_denied"),
			slog.String("request_id", x.requestID), slog.String("route", d.What), slog.String("code", d.Reason), slog.String("address", d.Address),
			slog.String("tenant_id", d.Tenant), slog.String("user_id", d.User), slog.String("token_id", d.Token))
	}
}

// seldom finds the first event of each kind in a period, so that a flood of them is few lines of the log.
type seldom struct {
	mu    sync.Mutex
	since time.Time
	kinds denials.Tally
}

// first reports whether an event is the first of its kind for a while.
func (s *seldom) first(kind denials.Denial, now time.Time, every time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.since) >= every {
		s.kinds.Take()
		s.since = now
	}
	return s.kinds.Note(kind, "", now)
}

// reports returns the settings for reporting denied requests to the coordinators: periodically, and once more at the
// end. Denials that cannot be reported are missing in the audit log; the gateway's own log says so.
func (s *server) reports() denials.Reports {
	return denials.Reports{
		By: "gateway", Every: s.config.Timeouts.Denials, Within: tellDenialsWithin, Last: tellLastDenialsWithin,
		Record: func(ctx context.Context, told []*v1.Denial) error {
			until, _ := ctx.Deadline()
			_, err := s.audit.RecordDenials(client.WithCall(ctx, client.Call{RetryFor: time.Until(until)}), &v1.RecordDenialsRequest{Denials: told})
			return err
		},
		Lost: func(ctx context.Context, told []*v1.Denial, err error) {
			var count int64
			for _, d := range told {
				count += d.GetCount()
			}
			s.log.LogAttrs(ctx, slog.LevelError, "denied requests are not in the audit log", slog.String("event", "scaimind_coordinator_error"),
				slog.Int64("count", count), slog.String("raw_detail", err.Error()))
		},
	}
}
