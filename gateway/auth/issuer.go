package auth

import (
	"context"
	"errors"
	"slices"

	"github.com/mindcoordinator/mind/gateway/oidc"
)

// roleGrants are the permissions of each role, as published. Other roles have none.
var roleGrants = map[string][]string{
	"super_admin":   AllPermissions,
	"partner_admin": AllPermissions,
	"tenant_admin":  AllPermissions,
	"tenant_viewer": {PermissionView, CoreView},
	"tenant_user":   {},
}

// Issuer authenticates callers by tokens of an OpenID Connect issuer.
type Issuer struct {
	Verifier *oidc.Verifier
}

// Authenticate implements Authenticator.
func (i Issuer) Authenticate(ctx context.Context, token string) (*Caller, error) {
	if !oidc.LooksLikeOne(token) {
		return nil, ErrInvalidToken
	}
	claims, err := i.Verifier.Verify(ctx, token)
	switch {
	case errors.Is(err, oidc.ErrInvalid):
		return nil, ErrInvalidToken
	case err != nil:
		return nil, err
	}
	return CallerOf(claims)
}

// CallerOf returns the caller that a token of an issuer is about. One without a tenant could see nothing, and is none. One
// without a subject, which OpenID Connect requires, would act without a name in the audit log.
func CallerOf(claims *oidc.Claims) (*Caller, error) {
	if !Identifier(claims.Tenant) || !Identifier(claims.Subject) {
		return nil, ErrInvalidToken
	}
	return &Caller{Tenant: claims.Tenant, User: claims.Subject, Permissions: granted(claims), Member: member(claims), Issued: true, Expires: claims.Expires}, nil
}

// maxMember bounds the groups and roles of a caller that coordinators learn of.
const maxMember = 64

// member returns the groups and roles of a caller. One whose name could not be a caller's is left out.
func member(claims *oidc.Claims) (of []string) {
	for _, list := range []struct {
		kind  string
		names []string
	}{{"role:", append([]string{claims.Role}, claims.Roles...)}, {"group:", claims.Groups}} {
		for _, name := range list.names {
			if name != "" && Identifier(name) && len(of) < maxMember {
				of = append(of, list.kind+name)
			}
		}
	}
	return of
}

// granted returns the permissions of the role and of the scopes.
func granted(claims *oidc.Claims) []string {
	permissions := slices.Clone(roleGrants[claims.Role])
	for _, scope := range claims.Scopes {
		if slices.Contains(AllPermissions, scope) && !slices.Contains(permissions, scope) {
			permissions = append(permissions, scope)
		}
	}
	return permissions
}
