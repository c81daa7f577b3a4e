// Package credentials admits requests by their credentials, and serves the paths on which callers get and lose them: API tokens,
// sessions of browsers, tickets for event streams, and signing in at an OpenID Connect issuer.
//
// Contract: Authenticate finds the caller of a request, by a token, a ticket or the cookie of a session, and says how the
// credential is checked again while an answer goes on.
//
// Guarantees: nobody gets a credential that may do more than the caller, unless the caller is an operator. Secrets are made here,
// and the coordinators get their digests alone. A request with two credentials is refused. A session makes no other credential.
//
// Not guaranteed: that a revoked credential is refused at once; a gateway remembers for a moment that it was good.
package credentials

import (
	"context"
	"crypto/sha256"
	"net/http"

	"google.golang.org/grpc"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/login"
	"github.com/mindcoordinator/mind/gateway/oidc"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/param"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/session"
)

// Handlers admit requests, and serve the paths of credentials.
type Handlers struct {
	known  auth.Authenticator
	issued *auth.APITokens
	tokens v1.TokenServiceClient
	// sessions authenticates the callers who have signed in.
	sessions       *session.Keeper
	sessionService v1.SessionServiceClient
	// login signs users in at an OpenID Connect issuer; nil: disabled.
	login *login.Flow
	// failedSignIns says which failures of signing in are logged.
	failedSignIns seldom
}

// Config says which credentials are accepted, beside those that the coordinators keep.
type Config struct {
	// Authenticator accepts tokens. If it is nil, those of Tokens, API tokens, and those of OIDC are accepted.
	Authenticator auth.Authenticator
	Tokens        []auth.StaticToken
	// OIDC configures an issuer whose tokens are accepted, too, and Login how users sign in there; nil: there is none, or they cannot.
	OIDC  *oidc.Config
	Login *login.Config
}

// New returns handlers that keep credentials at coordinators.
func New(coordinators grpc.ClientConnInterface, config Config) (*Handlers, error) {
	h := &Handlers{
		known: config.Authenticator, tokens: v1.NewTokenServiceClient(coordinators), sessionService: v1.NewSessionServiceClient(coordinators),
	}
	h.issued = auth.NewAPITokens(h.tokens)
	h.sessions = session.NewKeeper(h.sessionService, h.issued.Limit())
	if config.Login != nil && config.OIDC != nil {
		var err error
		if h.login, err = login.New(*config.Login, *config.OIDC); err != nil {
			return nil, err
		}
	}
	if h.known != nil {
		return h, nil
	}
	known := auth.FirstOf{auth.NewStaticTokens(config.Tokens), h.issued}
	if config.OIDC != nil {
		verifier, err := oidc.New(*config.OIDC)
		if err != nil {
			return nil, err
		}
		known = append(known, auth.Issuer{Verifier: verifier})
	}
	h.known = known
	return h, nil
}

// Endpoints are those of credentials: API tokens, tickets for event streams, sessions, and signing in.
func (h *Handlers) Endpoints() []rest.Endpoint {
	return []rest.Endpoint{
		{RPC: v1.TokenService_CreateToken_FullMethodName, Serve: h.createToken, Doc: openapi.Operation{In: &v1.CreateTokenRequest{}, Without: []string{"digest"}, Out: &v1.NewToken{}}},
		{RPC: v1.TokenService_ListTokens_FullMethodName, Serve: h.listTokens, Doc: openapi.Operation{Out: &v1.ListTokensResponse{}, Query: []openapi.Parameter{
			param.Text("tenant_id", "tokens of this tenant; for operators only"), param.Consistency,
		}}},
		{RPC: v1.TokenService_RevokeToken_FullMethodName, Serve: h.revokeToken, Doc: openapi.Operation{Out: &v1.RevokeTokenRequest{}, Query: []openapi.Parameter{
			param.Text("tenant_id", "tokens of this tenant; for operators only"),
		}}},

		{RPC: v1.TokenService_CreateStreamTicket_FullMethodName, Serve: h.createStreamTicket, Doc: openapi.Operation{
			In: &v1.StreamTicketRequest{}, Optional: true, Out: &v1.NewStreamTicket{},
		}},

		{RPC: v1.SessionService_CreateSession_FullMethodName, Serve: h.createSession, Doc: openapi.Operation{In: &v1.SignInRequest{}, Optional: true, Out: &v1.Session{}, Conflict: true}},
		{RPC: v1.SessionService_RevokeSession_FullMethodName, Variant: "own", Serve: h.deleteSession, Doc: openapi.Operation{}},
		{RPC: v1.SessionService_RevokeSession_FullMethodName, Serve: h.revokeSession, Doc: openapi.Operation{Out: &v1.RevokedSession{}, Query: []openapi.Parameter{
			param.Text("tenant_id", "a session of this tenant; for operators only"),
		}}},
		{RPC: v1.SessionService_ListSessions_FullMethodName, Serve: h.listSessions, Doc: openapi.Operation{Out: &v1.ListSessionsResponse{}, Query: []openapi.Parameter{
			param.Flag("all", "true: those of all users of the tenant, which takes scaimind:cluster_admin"),
			param.Text("tenant_id", "sessions of this tenant; for operators only"), param.Consistency,
		}}},
		{Own: rest.Get("/v1/session", "Show the session of the request", true), Serve: getSession, Doc: openapi.Operation{Out: &v1.Session{}}},
		{Own: rest.Get("/v1/session/methods", "Show how users may sign in", true), Open: true, Serve: h.sessionMethods, Doc: openapi.Operation{OutSchema: methodsSchema}},
		{Own: rest.Redirecting(login.Path, "Sign in at the OpenID Connect issuer: go there"), Open: true, Serve: h.beginLogin, Doc: openapi.Operation{Missing: true, Conflict: true, Query: []openapi.Parameter{
			param.Text("next", "the page of the console to go to afterwards, which begins with /console/"),
		}}},
		{Own: rest.Redirecting("/v1/session/callback", "Sign in at the OpenID Connect issuer: come back from there"), Open: true, Serve: h.finishLogin, Doc: openapi.Operation{Missing: true, Conflict: true}},
	}
}

// Authenticate finds the caller of a request.
func (h *Handlers) Authenticate(x *rest.Request) (*auth.Caller, *rest.Problem) {
	r := x.R
	if tickets := r.URL.Query()[param.Ticket.Name]; len(tickets) > 0 && (x.Route.Stream || r.Header.Get("Authorization") == "") {
		return h.admitTicket(x, tickets)
	}
	if len(r.Header["Authorization"]) == 0 {
		if caller, p := h.admitSession(x); caller != nil || p != nil {
			return caller, p
		}
	}
	if len(r.Header["Authorization"]) < 2 && r.Header.Get("Authorization") == "" {
		return nil, &rest.Problem{
			HTTP: http.StatusUnauthorized, Code: "AUTH_TOKEN_MISSING", Message: "send an Authorization header: Bearer TOKEN",
		}
	}
	invalidToken := &rest.Problem{HTTP: http.StatusUnauthorized, Code: "AUTH_TOKEN_INVALID", Message: "Invalid or expired authentication token"}
	token := rest.Bearer(r)
	if token == "" {
		return nil, invalidToken
	}
	x.Credential = sha256.Sum256([]byte(token))
	x.Recheck = func(ctx context.Context) (*auth.Caller, error) { return h.known.Authenticate(ctx, token) }
	caller, err := x.Recheck(auth.WithAddress(r.Context(), x.Server.Proxies.ClientOf(r)))
	if err != nil {
		return nil, unchecked(x, err, "token", invalidToken)
	}
	return caller, nil
}
