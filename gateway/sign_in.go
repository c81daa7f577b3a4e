package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/api/denials"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/authlimit"
	"github.com/mindcoordinator/mind/gateway/login"
	"github.com/mindcoordinator/mind/gateway/session"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// sessionMethods says how users may sign in.
func sessionMethods(x *httpRequest) error {
	x.data(func(b []byte) []byte {
		if x.server.login == nil {
			return append(b, `{"token":true,"oidc":null}`...)
		}
		b = append(b, `{"token":true,"oidc":{"name":`...)
		b = wire.AppendString(b, x.server.login.Name())
		b = append(b, `,"login_path":`...)
		b = wire.AppendString(b, login.Path)
		return append(b, "}}"...)
	})
	return nil
}

var noLogin = &problem{
	http: http.StatusNotFound, code: "NOT_FOUND", message: "this gateway knows no sign-in server (oidc_client_id): sign in with a token, POST /v1/session",
}

// beginLogin sends a browser to the issuer.
func beginLogin(x *httpRequest) error {
	site := x.server.siteOf(x.r)
	switch {
	case x.server.login == nil:
		return noLogin
	case !site.Safe():
		return needsHTTPS
	}
	to, pending, err := x.server.login.Begin(x.r.Context(), site.Origin(x.r), x.r.URL.Query().Get("next"))
	if err != nil {
		return x.loginFailed(err)
	}
	pending.Keep(x.w, site)
	x.redirect(to)
	return nil
}

// finishLogin makes a session for a user, when the issuer has sent the browser back.
func finishLogin(x *httpRequest) error {
	site := x.server.siteOf(x.r)
	switch {
	case x.server.login == nil:
		return noLogin
	case !site.Safe():
		return needsHTTPS
	}
	pending := login.Kept(x.r, site)
	code, err := pending.Code(x.r.URL.Query())
	if err != nil {
		if !errors.Is(err, login.ErrExpired) {
			login.Clear(x.w, site) // It was the answer, so no other one comes. An answer to nothing ends no sign-in.
		}
		return x.loginFailed(err)
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), x.server.config.Timeouts.Request)
	defer cancel()
	caller, err := x.issuedCaller(ctx, site, pending, code)
	if err != nil {
		return x.loginFailed(err)
	}
	x.caller = caller
	ctx = client.WithCall(ctx, client.Call{
		Tenant: caller.Tenant, User: caller.User, Member: caller.Member, RequestID: x.requestID, RetryFor: x.server.config.Timeouts.NoLeader,
		IdempotencyKey: status.AutoKeyPrefix + randomID(), Answer: &x.answer,
	})
	// The end of an ID token says until when a user may sign in with it, and not how long the user stays.
	if _, err := x.mintSession(ctx, time.Time{}); err != nil {
		return x.loginFailed(errors.Join(login.ErrUnreachable, err))
	}
	x.redirect(pending.Next)
	return nil
}

// issuedCaller exchanges a code for the caller of whom the issuer tells. Codes that nobody was given are limited as unknown tokens are.
func (x *httpRequest) issuedCaller(ctx context.Context, site session.Site, pending *login.Pending, code string) (*auth.Caller, error) {
	look, _ := x.server.issued.Limit().Begin(time.Now(), x.server.proxies.ClientOf(x.r), sha256.Sum256([]byte(code)))
	if look == nil {
		return nil, login.ErrThrottled
	}
	login.Clear(x.w, site) // A code is good once.
	claims, err := x.server.login.Finish(ctx, site.Origin(x.r), pending, code)
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
func (x *httpRequest) loginFailed(err error) error {
	s, page, address := x.server, login.Failed(err), x.server.proxies.ClientOf(x.r)
	kind := denials.Denial{Outcome: "UNAUTHENTICATED", Reason: page, Address: address}
	if x.r.Context().Err() == nil && s.failedSignIns.first(kind, time.Now(), s.config.Timeouts.Denials) {
		s.log.LogAttrs(x.r.Context(), slog.LevelWarn, "a sign-in failed", slog.String("event", "mind_sign_in_failed"),
			slog.String("request_id", x.requestID), slog.String("address", address), slog.String("raw_detail", err.Error()))
	}
	switch {
	case errors.Is(err, login.ErrThrottled):
		x.noteDenial(&problem{http: http.StatusTooManyRequests, code: "RATE_LIMITED"})
	case !errors.Is(err, login.ErrUnreachable):
		x.noteDenial(&problem{http: http.StatusUnauthorized, code: "SIGN_IN_FAILED"})
	}
	x.redirect(page)
	return nil
}

// redirect sends a browser on. The address that it comes from has a code in it, which no other page gets to know.
func (x *httpRequest) redirect(to string) {
	h := x.w.Header()
	h["Location"], h["Cache-Control"], h["Referrer-Policy"] = []string{to}, []string{"no-store"}, []string{"no-referrer"}
	x.empty(http.StatusSeeOther)
}
