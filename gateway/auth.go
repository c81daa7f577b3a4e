package gateway

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

// staticTokens knows the tokens of the configuration by their digests, so that
// the time of a look-up tells nothing about a token.
type staticTokens map[[sha256.Size]byte]*Caller

func newStaticTokens(tokens []StaticToken) staticTokens {
	known := staticTokens{}
	for _, t := range tokens {
		user := t.User
		known[sha256.Sum256([]byte(t.Token))] = &Caller{Tenant: t.Tenant, User: user, Permissions: slices.Clone(t.Permissions)}
	}
	return known
}

func (s staticTokens) Authenticate(ctx context.Context, token string) (*Caller, error) {
	return s.AuthenticateDigest(ctx, sha256.Sum256([]byte(token)))
}

// AuthenticateDigest implements DigestAuthenticator.
func (s staticTokens) AuthenticateDigest(_ context.Context, digest [sha256.Size]byte) (*Caller, error) {
	if caller, ok := s[digest]; ok {
		return caller, nil
	}
	return nil, ErrInvalidToken
}
