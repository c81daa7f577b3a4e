// Package auth authenticates requests and finds the permissions of their callers: by tokens of the configuration, API
// tokens that the coordinators keep, tokens of an OpenID Connect issuer, and tickets for event streams. Sessions of browsers
// are in package session.
//
// Guarantees: a revoked API token is accepted by another gateway for at most 10 seconds more. Unknown tokens and tickets
// from one address cause a bounded number of look-ups at the coordinators. No token leaves the gateway: coordinators get
// digests.
//
// Not guaranteed: that the caller is authorized for the request. Each route requires its own permission.
package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Caller is the authenticated sender of a request.
type Caller struct {
	Tenant      string
	User        string
	Permissions []string
	// Member has the groups and roles of the user, as decisions name them: "group:ID", "role:NAME".
	Member []string
	// Issued says that an OpenID Connect issuer issued the caller's token, so it can be exchanged for others.
	Issued bool
	// Token is the id of the API token that the caller used, or signed in with; empty: the caller used another credential.
	Token string
	// Session is the session that the caller used; nil: the caller used another credential.
	Session *v1.Session
	// Expires is when the caller's token expires; zero: it does not expire, or it is looked up again anyway.
	Expires time.Time
}

// May reports whether the caller has one of the permissions.
func (c *Caller) May(permissions ...string) bool {
	return slices.ContainsFunc(permissions, func(p string) bool { return slices.Contains(c.Permissions, p) })
}

// ErrInvalidToken is returned for a token that does not exist, has expired or was revoked.
var ErrInvalidToken = errors.New("invalid or expired authentication token")

// Authenticator finds the sender of a bearer token. Any error but ErrInvalidToken means that the token could not be
// checked.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (*Caller, error)
}

// DigestAuthenticator is an Authenticator that can also look up a token by its SHA-256, so it can check a token again
// without seeing it.
type DigestAuthenticator interface {
	AuthenticateDigest(ctx context.Context, digest [sha256.Size]byte) (*Caller, error)
}

// FirstOf asks several authenticators in order: a token unknown to one may be known to the next.
type FirstOf []Authenticator

// Authenticate implements Authenticator.
func (f FirstOf) Authenticate(ctx context.Context, token string) (*Caller, error) {
	return f.ask(func(a Authenticator) (*Caller, error) { return a.Authenticate(ctx, token) })
}

// AuthenticateDigest implements DigestAuthenticator.
func (f FirstOf) AuthenticateDigest(ctx context.Context, digest [sha256.Size]byte) (*Caller, error) {
	return f.ask(func(a Authenticator) (*Caller, error) {
		if d, ok := a.(DigestAuthenticator); ok {
			return d.AuthenticateDigest(ctx, digest)
		}
		return nil, ErrInvalidToken
	})
}

func (f FirstOf) ask(one func(Authenticator) (*Caller, error)) (*Caller, error) {
	unknown := ErrInvalidToken
	for _, a := range f {
		caller, err := one(a)
		if err == nil {
			return caller, nil
		}
		if !errors.Is(err, ErrInvalidToken) {
			unknown = err
		}
	}
	return nil, unknown
}
