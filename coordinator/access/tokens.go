package access

import (
	"context"
	"encoding/hex"
	"time"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// maxLifetime limits the lifetime of a token, in seconds: ten years.
const maxLifetime = 10 * 365 * 86_400

// CreateToken creates a token of the caller's tenant.
func (s *Service) CreateToken(ctx context.Context, req *v1.CreateTokenRequest) (*v1.CreateTokenResponse, error) {
	c := call.Of(ctx)
	if req.GetExpiresInSeconds() < 0 {
		return nil, call.Bad("expires_in_seconds", "a token cannot expire before it is created")
	}
	if req.GetExpiresInSeconds() > maxLifetime {
		return nil, call.Bad("expires_in_seconds", "must be at most %d; leave it out for a token without an end", maxLifetime)
	}
	if req.GetTenantId() != "" && req.GetTenantId() != c.Tenant {
		return nil, call.Errorf(codes.PermissionDenied, "a token can only be created for the tenant of the call")
	}
	user := req.GetUserId()
	if user == "" {
		user = c.User
	}
	result, err := replica.Propose[access.TokenResult](ctx, s.replica, access.PutToken{
		Digest: hex.EncodeToString(req.GetDigest()), Tenant: c.Tenant, User: user, Name: req.GetName(),
		Permissions: req.GetPermissions(), CreatedBy: c.User, Lifetime: req.GetExpiresInSeconds() * int64(time.Second),
		Actor: c.Actor(),
	})
	if err != nil {
		return nil, err
	}
	if result.Refusal != nil {
		return nil, call.Refused(result.Refusal)
	}
	return &v1.CreateTokenResponse{Token: tokenView(result.Token)}, nil
}

// ListTokens lists the tokens of the caller's tenant.
func (s *Service) ListTokens(ctx context.Context, _ *v1.ListTokensRequest) (*v1.ListTokensResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	out := &v1.ListTokensResponse{}
	for t := range v.TokensOf(call.Of(ctx).Tenant) {
		out.Tokens = append(out.Tokens, tokenView(t))
	}
	return out, nil
}

// RevokeToken revokes a token of the caller's tenant.
func (s *Service) RevokeToken(ctx context.Context, req *v1.RevokeTokenRequest) (*v1.RevokeTokenResponse, error) {
	id, ok := ident.ParseToken(req.GetTokenId())
	if !ok {
		return nil, call.NotFound("token", req.GetTokenId())
	}
	result, err := replica.Propose[access.TokenResult](ctx, s.replica, access.RevokeToken{Tenant: call.Of(ctx).Tenant, ID: id, Actor: call.Of(ctx).Actor()})
	if err != nil {
		return nil, err
	}
	if result.Refusal != nil {
		return nil, call.Refused(result.Refusal)
	}
	return &v1.RevokeTokenResponse{}, nil
}

// VerifyToken returns the owner of the token with a digest. The leader answers, so that it learns all uses; with stale
// consistency, which is for times without a leader, any replica does.
func (s *Service) VerifyToken(ctx context.Context, req *v1.VerifyTokenRequest) (*v1.VerifyTokenResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	t, ok := v.TokenByDigest(hex.EncodeToString(req.GetDigest()))
	if !ok || t.ExpiresAt != 0 && t.ExpiresAt <= time.Now().UnixNano() {
		return nil, call.Errorf(codes.NotFound, "this token does not exist, or is no longer valid")
	}
	if term := s.term.Load(); term != nil && !call.Of(ctx).Stale {
		term.uses.note(t.ID)
	}
	return &v1.VerifyTokenResponse{Token: tokenView(t)}, nil
}

func tokenView(t *access.Token) *v1.Token {
	return &v1.Token{
		TokenId: t.ID.String(), Name: t.Name, TenantId: t.Tenant, UserId: t.User, Permissions: t.Permissions, CreatedBy: t.CreatedBy,
		CreatedAt: call.Time(t.CreatedAt), ExpiresAt: call.Time(t.ExpiresAt), LastUsedAt: call.Time(t.LastUsedAt),
	}
}
