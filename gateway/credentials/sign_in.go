package credentials

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/api/denials"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/authlimit"
	"github.com/mindcoordinator/mind/gateway/login"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/session"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// sessionMethods says how users may sign in.
func (h *Handlers) sessionMethods(x *rest.Request) error {
	x.Data(func(b []byte) []byte {
		if h.login == nil {
			return append(b, `{"token":true,"oidc":null}`...)
		}
		b = append(b, `{"token":true,"oidc":{"name":`...)
		b = wire.AppendString(b, h.login.Name())
		b = append(b, `,"login_path":`...)
		b = wire.AppendString(b, login.Path)
		return append(b, "}}"...)
	})
	return nil
}

var noLogin = &rest.Problem{
	HTTP: http.StatusNotFound, Code: "NOT_FOUND", Message: "this gateway knows no sign-in server (oidc_client_id): sign in with a token, POST /v1/session",
}

// beginLogin sends a browser to the issuer.
func (h *Handlers) beginLogin(x *rest.Request) error {
	site := siteOf(x)
	switch {
	case h.login == nil:
		return noLogin
	case !site.Safe():
		return needsHTTPS
	}
	to, pending, err := h.login.Begin(x.R.Context(), site.Origin(x.R), x.R.URL.Query().Get("next"))
	if err != nil {
		return h.loginFailed(x, err)
	}
	pending.Keep(x.W, site)
	redirect(x, to)
	return nil
}

// finishLogin makes a session for a user, when the issuer has sent the browser back.
func (h *Handlers) finishLogin(x *rest.Request) error {
	site := siteOf(x)
	switch {
	case h.login == nil:
		return noLogin
	case !site.Safe():
		return needsHTTPS
	}
	pending := login.Kept(x.R, site)
	code, err := pending.Code(x.R.URL.Query())
	if err != nil {
		if !errors.Is(err, login.ErrExpired) {
			login.Clear(x.W, site) // It was the answer, so no other one comes. An answer to nothing ends no sign-in.
		}
		return h.loginFailed(x, err)
	}
	ctx, cancel := context.WithTimeout(x.R.Context(), x.Server.Timeouts.Request)
	defer cancel()
	caller, err := h.issuedCaller(ctx, x, site, pending, code)
	if err != nil {
		return h.loginFailed(x, err)
	}
	x.Caller = caller
	ctx = client.WithCall(ctx, client.Call{
		Tenant: caller.Tenant, User: caller.User, Member: caller.Member, RequestID: x.RequestID, RetryFor: x.Server.Timeouts.NoLeader,
		IdempotencyKey: status.AutoKeyPrefix + rest.RandomID(), Answer: &x.Answer,
	})
	// The end of an ID token says until when a user may sign in with it, and not how long the user stays.
	if _, err := h.mintSession(ctx, x, time.Time{}); err != nil {
		return h.loginFailed(x, errors.Join(login.ErrUnreachable, err))
	}
	redirect(x, pending.Next)
	return nil
}

// issuedCaller exchanges a code for the caller of whom the issuer tells. Codes that nobody was given are limited as unknown tokens are.
func (h *Handlers) issuedCaller(ctx context.Context, x *rest.Request, site session.Site, pending *login.Pending, code string) (*auth.Caller, error) {
	look, _ := h.issued.Limit().Begin(time.Now(), x.Server.Proxies.ClientOf(x.R), sha256.Sum256([]byte(code)))
	if look == nil {
		return nil, login.ErrThrottled
	}
	login.Clear(x.W, site) // A code is good once.
	claims, err := h.login.Finish(ctx, site.Origin(x.R), pending, code)
	switch {
	case errors.Is(err, login.ErrUnreachable):
		look.Done(authlimit.Undecided)
	case err != nil:
		look.Done(authlimit.Bad)
	default:
		look.Done(authlimit.Good)
	}
	if err != nil {
		return nil, err
	}
	caller, err := auth.CallerOf(claims)
	if err != nil {
		return nil, errors.Join(login.ErrDenied, errors.New("the user belongs to no tenant"))
	}
	return caller, nil
}

// loginFailed sends the browser to a page that says why, by a code; the log has the details of the first failure of each kind.
func (h *Handlers) loginFailed(x *rest.Request, err error) error {
	s, page, address := x.Server, login.Failed(err), x.Server.Proxies.ClientOf(x.R)
	kind := denials.Denial{Outcome: "UNAUTHENTICATED", Reason: page, Address: address}
	if x.R.Context().Err() == nil && h.failedSignIns.first(kind, time.Now(), s.Timeouts.Denials) {
		x.Server.Log.LogAttrs(x.R.Context(), slog.LevelWarn, "a sign-in failed", slog.String("event", "mind_sign_in_failed"),
			slog.String("request_id", x.RequestID), slog.String("address", address), slog.String("raw_detail", err.Error()))
	}
	switch {
	case errors.Is(err, login.ErrThrottled):
		x.NoteDenial(&rest.Problem{HTTP: http.StatusTooManyRequests, Code: "RATE_LIMITED"})
	case !errors.Is(err, login.ErrUnreachable):
		x.NoteDenial(&rest.Problem{HTTP: http.StatusUnauthorized, Code: "SIGN_IN_FAILED"})
	}
	redirect(x, page)
	return nil
}

// redirect sends a browser on. The address that it comes from has a code in it, which no other page gets to know.
func redirect(x *rest.Request, to string) {
	h := x.W.Header()
	h["Location"], h["Cache-Control"], h["Referrer-Policy"] = []string{to}, []string{"no-store"}, []string{"no-referrer"}
	x.Empty(http.StatusSeeOther)
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
