package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/session"
	"github.com/mindcoordinator/mind/gateway/wire"
)

var (
	badSession = &problem{
		http: http.StatusUnauthorized, code: "AUTH_TOKEN_INVALID", message: "the session has ended or is unknown: sign in again",
	}
	noSession = &problem{
		http: http.StatusUnauthorized, code: "AUTH_TOKEN_MISSING", message: "there is no session: sign in with POST /v1/session",
	}
	needsToken = &problem{
		http: http.StatusUnauthorized, code: "AUTH_TOKEN_MISSING",
		message: "a session is no credential for this: send an Authorization header: Bearer TOKEN",
	}
)

func (s *server) siteOf(r *http.Request) session.Site { return session.SiteOf(r, s.proxies) }

// admitSession finds the caller of a request without an Authorization header by the cookie of a session; nil and nil: there is none.
func (s *server) admitSession(x *httpRequest) (*auth.Caller, *problem) {
	site := s.siteOf(x.r)
	digest, err := site.Read(x.r)
	switch {
	case errors.Is(err, session.ErrNone):
		return nil, nil
	case errors.Is(err, session.ErrCrossOrigin):
		return nil, &problem{
			http: http.StatusForbidden, code: "CROSS_ORIGIN_DENIED",
			message: "a page of another origin made this request: the cookie of a session is for pages of this gateway alone",
		}
	case errors.Is(err, session.ErrNotOfThisOrigin):
		return nil, &problem{
			http: http.StatusUnauthorized, code: "AUTH_TOKEN_MISSING",
			message: "the cookie of a session counts in requests of this gateway's own pages alone (Sec-Fetch-Site: same-origin): send an Authorization header: Bearer TOKEN",
		}
	case err != nil:
		site.Clear(x.w)
		return nil, badSession
	}
	x.credential = digest
	x.recheck = func(ctx context.Context) (*auth.Caller, error) { return s.sessions.Authenticate(ctx, digest) }
	caller, err := x.recheck(auth.WithAddress(x.r.Context(), s.proxies.ClientOf(x.r)))
	if errors.Is(err, auth.ErrInvalidToken) {
		site.Clear(x.w)
	}
	if err != nil {
		return nil, s.unchecked(x, err, "session", badSession)
	}
	return caller, nil
}

// recheckEvery is how often the credential behind an event stream is checked again.
func (x *httpRequest) recheckEvery() time.Duration {
	if x.caller.Session != nil {
		return min(session.Recheck, x.server.config.Timeouts.StreamToken)
	}
	return x.server.config.Timeouts.StreamToken
}

var needsHTTPS = &problem{
	http: http.StatusConflict, code: "FAILED_PRECONDITION",
	message: "a session needs HTTPS, because others could read its cookie: use an https address of the gateway, " +
		"or a proxy with HTTPS that trusted_proxies names and that sets X-Forwarded-Proto; on the gateway's own machine, http://localhost will do",
}

// createSession signs the caller in: the answer has the cookie of a new session, whatever cookie the request had.
func createSession(x *httpRequest) error {
	if _, err := x.decode(&v1.SignInRequest{}, true); err != nil {
		return err
	}
	if x.caller.Session != nil {
		return needsToken
	}
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	made, err := x.mintSession(ctx, x.caller.Expires)
	if err != nil {
		return err
	}
	x.w.Header()["Cache-Control"] = []string{"no-store"}
	x.ok(made)
	return nil
}

// mintSession makes a session for the caller, and sets its cookie. It ends at a time; zero: 12 hours from now.
func (x *httpRequest) mintSession(ctx context.Context, ends time.Time) (*v1.Session, error) {
	site := x.server.siteOf(x.r)
	if !site.Safe() {
		return nil, needsHTTPS
	}
	secret, digest := session.Mint()
	request := &v1.CreateSessionRequest{
		Digest: digest[:], Permissions: x.caller.Permissions, Address: x.server.proxies.ClientOf(x.r), UserAgent: browserOf(x.r),
	}
	if !ends.IsZero() {
		request.ExpiresAt = timestamppb.New(ends)
	}
	reply, err := x.server.sessionService.CreateSession(ctx, request)
	if err != nil {
		return nil, err
	}
	made := reply.GetSession()
	made.Current = true
	site.Set(x.w, secret, made.GetExpiresAt().AsTime())
	return made, nil
}

// maxBrowser bounds the name of a browser that is kept with a session, in bytes, as the coordinators do.
const maxBrowser = 256

// browserOf returns what a browser says of itself.
func browserOf(r *http.Request) string {
	name := r.UserAgent()
	return strings.ToValidUTF8(name[:min(len(name), maxBrowser)], "?")
}

// getSession answers with the caller's own session.
func getSession(x *httpRequest) error {
	if x.caller.Session == nil {
		return noSession
	}
	own := proto.CloneOf(x.caller.Session)
	own.Current = true
	x.ok(own)
	return nil
}

// deleteSession signs the caller out.
func deleteSession(x *httpRequest) error {
	if x.caller.Session == nil {
		return noSession
	}
	err := x.revokeSession(&v1.RevokeSessionRequest{SessionId: x.caller.Session.GetSessionId()})
	// This browser has signed out, even if the session could not be ended now.
	x.server.siteOf(x.r).Clear(x.w)
	if err != nil {
		return err
	}
	x.nothing()
	return nil
}

// ofAnotherTenant reports whether the query names another tenant than the caller's own. asTenant lets only operators do that.
func ofAnotherTenant(x *httpRequest) bool {
	tenant := x.r.URL.Query().Get("tenant_id")
	return tenant != "" && tenant != x.caller.Tenant
}

// listSessions lists the sessions of the caller; with all=true, or for another tenant, those of a tenant.
func listSessions(x *httpRequest) error {
	asked, faults := wire.Bool(x.r.URL.Query(), "all", nil)
	if len(faults) > 0 {
		return invalidBody(faults)
	}
	all := asked != nil && *asked
	own := x.caller.Session.GetSessionId()
	other := ofAnotherTenant(x)
	if err := asTenant(x, "sessions"); err != nil {
		return err
	}
	if all && !other && !x.caller.May(auth.PermissionClusterAdmin, auth.PermissionOperator) {
		return &problem{
			http: http.StatusForbidden, code: "AUTHZ_PERMISSION_DENIED",
			message: "the sessions of other users need the permission " + auth.PermissionClusterAdmin,
		}
	}
	return unary(x, &v1.ListSessionsRequest{All: all || other}, x.server.sessionService.ListSessions,
		func(reply *v1.ListSessionsResponse) proto.Message {
			for _, listed := range reply.GetSessions() {
				listed.Current = listed.GetSessionId() == own
			}
			return reply
		})
}

// revokeSession ends a session of the caller, or of another user if the caller may.
func revokeSession(x *httpRequest) error {
	own, other := x.caller.Session.GetSessionId(), ofAnotherTenant(x)
	if err := asTenant(x, "sessions"); err != nil {
		return err
	}
	request := &v1.RevokeSessionRequest{
		SessionId: id(x), AnyUser: other || x.caller.May(auth.PermissionClusterAdmin, auth.PermissionOperator),
	}
	if err := x.revokeSession(request); err != nil {
		return err
	}
	if request.SessionId == own {
		x.server.siteOf(x.r).Clear(x.w)
	}
	x.ok(&v1.RevokedSession{SessionId: request.SessionId})
	return nil
}

func (x *httpRequest) revokeSession(request *v1.RevokeSessionRequest) error {
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	_, err = x.server.sessionService.RevokeSession(ctx, request)
	x.server.sessions.ForgetSession(request.GetSessionId()) // An error may hide that it was done.
	return err
}

var methodsSchema = object{
	"type": "object", "required": []string{"status", "data", "meta"},
	"properties": object{
		"status": object{"const": "ok"}, "meta": anything,
		"data": object{
			"type": "object", "required": []string{"token", "oidc"},
			"properties": object{
				"token": object{"type": "boolean"},
				"oidc":  object{"type": []string{"object", "null"}, "properties": object{"name": openapi.Text, "login_path": openapi.Text}},
			},
		},
	},
}
