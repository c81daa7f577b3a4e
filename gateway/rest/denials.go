package rest

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/mindcoordinator/mind/api/denials"
)

// NoteDenial counts a request that this gateway itself refuses. Denied access is also reported to the coordinators for
// the audit log. Malformed and excess requests are not: they do not show that someone tried to get access.
func (x *Request) NoteDenial(p *Problem) {
	if p.Coordinators {
		return
	}
	outcome := ""
	switch p.HTTP {
	case http.StatusUnauthorized:
		outcome = "UNAUTHENTICATED"
	case http.StatusForbidden:
		outcome = "PERMISSION_DENIED"
	case http.StatusUnprocessableEntity, http.StatusTooManyRequests:
	default:
		return
	}
	s := x.Server
	s.Metrics.Denied.WithLabelValues(cmp.Or(p.Reason, p.Code)).Inc()
	if outcome == "" {
		return
	}
	d := denials.Denial{Outcome: outcome, Reason: p.Code, What: x.Route.Name, Address: s.Proxies.ClientOf(x.R)}
	if x.Caller != nil {
		d.Tenant, d.User, d.Token = x.Caller.Tenant, x.Caller.User, x.Caller.Token
	}
	if s.Denied.Note(d, x.RequestID, time.Now()) {
		s.Log.LogAttrs(x.R.Context(), slog.LevelWarn, "access denied", slog.String("event", "scaimind_access_denied"),
			slog.String("request_id", x.RequestID), slog.String("route", d.What), slog.String("code", d.Reason), slog.String("address", d.Address),
			slog.String("tenant_id", d.Tenant), slog.String("user_id", d.User), slog.String("token_id", d.Token))
	}
}
