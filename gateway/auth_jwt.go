package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/gateway/oidc"
)

// roleGrants are the permissions that come with a role, as published. A role that is not here has none.
var roleGrants = map[string][]string{
	"super_admin":   AllPermissions,
	"partner_admin": AllPermissions,
	"tenant_admin":  AllPermissions,
	"tenant_viewer": {PermissionView},
	"tenant_user":   {},
}

// firstOf asks one authenticator after the other: a token that one does not know may be another's.
type firstOf []Authenticator

func (f firstOf) Authenticate(ctx context.Context, token string) (*Caller, error) {
	return f.ask(func(a Authenticator) (*Caller, error) { return a.Authenticate(ctx, token) })
}

// AuthenticateDigest implements DigestAuthenticator.
func (f firstOf) AuthenticateDigest(ctx context.Context, digest [sha256.Size]byte) (*Caller, error) {
	return f.ask(func(a Authenticator) (*Caller, error) {
		if d, ok := a.(DigestAuthenticator); ok {
			return d.AuthenticateDigest(ctx, digest)
		}
		return nil, ErrInvalidToken
	})
}

func (f firstOf) ask(one func(Authenticator) (*Caller, error)) (*Caller, error) {
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

// issuedTokens knows the callers that an OpenID Connect issuer vouches for.
type issuedTokens struct {
	verifier *oidc.Verifier
}

func (i issuedTokens) Authenticate(ctx context.Context, token string) (*Caller, error) {
	if !oidc.LooksLikeOne(token) {
		return nil, ErrInvalidToken
	}
	claims, err := i.verifier.Verify(ctx, token)
	switch {
	case errors.Is(err, oidc.ErrInvalid):
		return nil, ErrInvalidToken
	case err != nil:
		return nil, err
	case !identifier(claims.Tenant), claims.Subject != "" && !identifier(claims.Subject):
		return nil, ErrInvalidToken // nobody's: there is nothing that it could see
	}
	return &Caller{Tenant: claims.Tenant, User: claims.Subject, Permissions: granted(claims), Issued: true, Expires: claims.Expires}, nil
}

// granted adds up what the role grants and what the scopes name.
func granted(claims *oidc.Claims) []string {
	permissions := slices.Clone(roleGrants[claims.Role])
	for _, scope := range claims.Scopes {
		if strings.HasPrefix(scope, "scaimind:") && slices.Contains(AllPermissions, scope) && !slices.Contains(permissions, scope) {
			permissions = append(permissions, scope)
		}
	}
	return permissions
}
