// Package auth says who a request comes from, and what he may: by tokens of the configuration, API tokens that the coordinators
// keep, tokens of an OpenID Connect issuer, and tickets for event streams.
//
// Guarantees: an API token that was revoked is good at another gateway for 10 seconds at most. Unknown tokens and tickets of one
// address lead to a bounded number of questions to the coordinators. No token leaves the gateway: coordinators are sent digests.
//
// Not guaranteed: that a caller may do what he asks for. The route says which permission that needs.
package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"
)

// Caller is who a request comes from.
type Caller struct {
	Tenant      string
	User        string
	Permissions []string
	// Issued says that an OpenID Connect issuer made the caller's token, so that it can be exchanged for others.
	Issued bool
	// Token is the id of the API token that he came with; empty: he came another way.
	Token string
	// Expires is when the token that he came with ends; zero: it does not, or it is looked up again anyway.
	Expires time.Time
}

// May says whether the caller has one of the permissions.
func (c *Caller) May(permissions ...string) bool {
	return slices.ContainsFunc(permissions, func(p string) bool { return slices.Contains(c.Permissions, p) })
}

// ErrInvalidToken is returned for a token that nobody issued, or that is no longer good.
var ErrInvalidToken = errors.New("invalid or expired authentication token")

// Authenticator says who sent a bearer token. Any error but ErrInvalidToken
// means that it could not tell.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (*Caller, error)
}

// DigestAuthenticator is an Authenticator that knows tokens by their SHA-256, too: so it can look at one again that it is not shown.
type DigestAuthenticator interface {
	AuthenticateDigest(ctx context.Context, digest [sha256.Size]byte) (*Caller, error)
}

// FirstOf asks one authenticator after the other: a token that one does not know may be another's.
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
