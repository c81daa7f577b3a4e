package credentials

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
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/session"
	"github.com/mindcoordinator/mind/gateway/wire"
)

var (
	badSession = &rest.Problem{
		HTTP: http.StatusUnauthorized, Code: "AUTH_TOKEN_INVALID", Message: "the session has ended or is unknown: sign in again",
	}
	noSession = &rest.Problem{
		HTTP: http.StatusUnauthorized, Code: "AUTH_TOKEN_MISSING", Message: "there is no session: sign in with POST /v1/session",
	}
	needsToken = &rest.Problem{
		HTTP: http.StatusUnauthorized, Code: "AUTH_TOKEN_MISSING",
		Message: "a session is no credential for this: send an Authorization header: Bearer TOKEN",
	}
)

func siteOf(x *rest.Request) session.Site { return session.SiteOf(x.R, x.Server.Proxies) }

// admitSession finds the caller of a request without an Authorization header by the cookie of a session; nil and nil: there is none.
func (h *Handlers) admitSession(x *rest.Request) (*auth.Caller, *rest.Problem) {
	site := siteOf(x)
	digest, err := site.Read(x.R)
	switch {
	case errors.Is(err, session.ErrNone):
		return nil, nil
	case errors.Is(err, session.ErrCrossOrigin):
		return nil, &rest.Problem{
			HTTP: http.StatusForbidden, Code: "CROSS_ORIGIN_DENIED",
			Message: "a page of another origin made this request: the cookie of a session is for pages of this gateway alone",
		}
	case errors.Is(err, session.ErrNotOfThisOrigin):
		return nil, &rest.Problem{
			HTTP: http.StatusUnauthorized, Code: "AUTH_TOKEN_MISSING",
			Message: "the cookie of a session counts in requests of this gateway's own pages alone (Sec-Fetch-Site: same-origin): send an Authorization header: Bearer TOKEN",
		}
	case err != nil:
		site.Clear(x.W)
		return nil, badSession
	}
	x.Credential, x.RecheckEvery = digest, session.Recheck
	x.Recheck = func(ctx context.Context) (*auth.Caller, error) { return h.sessions.Authenticate(ctx, digest) }
	caller, err := x.Recheck(auth.WithAddress(x.R.Context(), x.Server.Proxies.ClientOf(x.R)))
	if errors.Is(err, auth.ErrInvalidToken) {
		site.Clear(x.W)
	}
	if err != nil {
		return nil, unchecked(x, err, "session", badSession)
	}
	return caller, nil
}

var needsHTTPS = &rest.Problem{
	HTTP: http.StatusConflict, Code: "FAILED_PRECONDITION",
	Message: "a session needs HTTPS, because others could read its cookie: use an https address of the gateway, " +
		"or a proxy with HTTPS that trusted_proxies names and that sets X-Forwarded-Proto; on the gateway's own machine, http://localhost will do",
}

// createSession signs the caller in: the answer has the cookie of a new session, whatever cookie the request had.
func (h *Handlers) createSession(x *rest.Request) error {
	if _, err := x.Decode(&v1.SignInRequest{}, true); err != nil {
		return err
	}
	if x.Caller.Session != nil {
		return needsToken
	}
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	made, err := h.mintSession(ctx, x, x.Caller.Expires)
	if err != nil {
		return err
	}
	x.W.Header()["Cache-Control"] = []string{"no-store"}
	x.OK(made)
	return nil
}

// mintSession makes a session for the caller, and sets its cookie. It ends at a time; zero: 12 hours from now.
func (h *Handlers) mintSession(ctx context.Context, x *rest.Request, ends time.Time) (*v1.Session, error) {
	site := siteOf(x)
	if !site.Safe() {
		return nil, needsHTTPS
	}
	secret, digest := session.Mint()
	request := &v1.CreateSessionRequest{
		Digest: digest[:], Permissions: x.Caller.Permissions, Address: x.Server.Proxies.ClientOf(x.R), UserAgent: browserOf(x.R),
	}
	if !ends.IsZero() {
		request.ExpiresAt = timestamppb.New(ends)
	}
	reply, err := h.sessionService.CreateSession(ctx, request)
	if err != nil {
		return nil, err
	}
	made := reply.GetSession()
	made.Current = true
	site.Set(x.W, secret, made.GetExpiresAt().AsTime())
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
func getSession(x *rest.Request) error {
	if x.Caller.Session == nil {
		return noSession
	}
	own := proto.CloneOf(x.Caller.Session)
	own.Current = true
	x.OK(own)
	return nil
}

// deleteSession signs the caller out.
func (h *Handlers) deleteSession(x *rest.Request) error {
	if x.Caller.Session == nil {
		return noSession
	}
	err := h.endSession(x, &v1.RevokeSessionRequest{SessionId: x.Caller.Session.GetSessionId()})
	// This browser has signed out, even if the session could not be ended now.
	siteOf(x).Clear(x.W)
	if err != nil {
		return err
	}
	x.Nothing()
	return nil
}

// ofAnotherTenant reports whether the query names another tenant than the caller's own. asTenant lets only operators do that.
func ofAnotherTenant(x *rest.Request) bool {
	tenant := x.R.URL.Query().Get("tenant_id")
	return tenant != "" && tenant != x.Caller.Tenant
}

// listSessions lists the sessions of the caller; with all=true, or for another tenant, those of a tenant.
func (h *Handlers) listSessions(x *rest.Request) error {
	asked, faults := wire.Bool(x.R.URL.Query(), "all", nil)
	if len(faults) > 0 {
		return rest.InvalidBody(faults)
	}
	all := asked != nil && *asked
	own := x.Caller.Session.GetSessionId()
	other := ofAnotherTenant(x)
	if err := asTenant(x, "sessions"); err != nil {
		return err
	}
	if all && !other && !x.Caller.May(auth.PermissionClusterAdmin, auth.PermissionOperator) {
		return &rest.Problem{
			HTTP: http.StatusForbidden, Code: "AUTHZ_PERMISSION_DENIED",
			Message: "the sessions of other users need the permission " + auth.PermissionClusterAdmin,
		}
	}
	return rest.Unary(x, &v1.ListSessionsRequest{All: all || other}, h.sessionService.ListSessions,
		func(reply *v1.ListSessionsResponse) proto.Message {
			for _, listed := range reply.GetSessions() {
				listed.Current = listed.GetSessionId() == own
			}
			return reply
		})
}

// revokeSession ends a session of the caller, or of another user if the caller may.
func (h *Handlers) revokeSession(x *rest.Request) error {
	own, other := x.Caller.Session.GetSessionId(), ofAnotherTenant(x)
	if err := asTenant(x, "sessions"); err != nil {
		return err
	}
	request := &v1.RevokeSessionRequest{
		SessionId: x.ID(), AnyUser: other || x.Caller.May(auth.PermissionClusterAdmin, auth.PermissionOperator),
	}
	if err := h.endSession(x, request); err != nil {
		return err
	}
	if request.SessionId == own {
		siteOf(x).Clear(x.W)
	}
	x.OK(&v1.RevokedSession{SessionId: request.SessionId})
	return nil
}

func (h *Handlers) endSession(x *rest.Request, request *v1.RevokeSessionRequest) error {
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	_, err = h.sessionService.RevokeSession(ctx, request)
	h.sessions.ForgetSession(request.GetSessionId()) // An error may hide that it was done.
	return err
}

var methodsSchema = openapi.Object{
	"type": "object", "required": []string{"status", "data", "meta"},
	"properties": openapi.Object{
		"status": openapi.Object{"const": "ok"}, "meta": openapi.Anything,
		"data": openapi.Object{
			"type": "object", "required": []string{"token", "oidc"},
			"properties": openapi.Object{
				"token": openapi.Object{"type": "boolean"},
				"oidc":  openapi.Object{"type": []string{"object", "null"}, "properties": openapi.Object{"name": openapi.Text, "login_path": openapi.Text}},
			},
		},
	},
}
