package auth

import (
	"context"
	"crypto/sha256"
	"slices"
)

// StaticToken is a bearer token from the configuration.
type StaticToken struct {
	Token       string   `yaml:"token"`
	Tenant      string   `yaml:"tenant"`
	User        string   `yaml:"user"`
	Permissions []string `yaml:"permissions"`
}

// StaticTokens keeps the configured tokens by their digests, so that the time of a look-up reveals nothing about a token.
type StaticTokens map[[sha256.Size]byte]*Caller

// NewStaticTokens makes an authenticator for these tokens.
func NewStaticTokens(tokens []StaticToken) StaticTokens {
	known := StaticTokens{}
	for _, t := range tokens {
		user := t.User
		known[sha256.Sum256([]byte(t.Token))] = &Caller{Tenant: t.Tenant, User: user, Permissions: slices.Clone(t.Permissions)}
	}
	return known
}

// Authenticate implements Authenticator.
func (s StaticTokens) Authenticate(ctx context.Context, token string) (*Caller, error) {
	return s.AuthenticateDigest(ctx, sha256.Sum256([]byte(token)))
}

// AuthenticateDigest implements DigestAuthenticator.
func (s StaticTokens) AuthenticateDigest(_ context.Context, digest [sha256.Size]byte) (*Caller, error) {
	if caller, ok := s[digest]; ok {
		return caller, nil
	}
	return nil, ErrInvalidToken
}
