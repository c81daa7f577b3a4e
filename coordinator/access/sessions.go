package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// maxVerified limits the sessions of one question.
const maxVerified = 1000

// maxListed limits the sessions of one answer.
const maxListed = 1000

// CreateSession creates a session of the caller.
func (s *Service) CreateSession(ctx context.Context, req *v1.CreateSessionRequest) (*v1.CreateSessionResponse, error) {
	c := call.Of(ctx)
	command := access.CreateSession{
		Digest: hex.EncodeToString(req.GetDigest()), Tenant: c.Tenant, User: c.User, Permissions: req.GetPermissions(), Member: c.Member,
		Address: req.GetAddress(), UserAgent: req.GetUserAgent(), Actor: c.Actor(),
	}
	if c.Token != "" {
		id, ok := ident.ParseToken(c.Token)
		if !ok {
			return nil, call.NotFound("token", c.Token)
		}
		command.Token = id
	}
	if ends := req.GetExpiresAt(); ends != nil {
		if command.Lifetime = int64(time.Until(ends.AsTime())); command.Lifetime <= 0 {
			return nil, call.Errorf(codes.FailedPrecondition, "the token has expired: sign in with another one")
		}
	}
	result, err := replica.Propose[access.SessionResult](ctx, s.replica, command)
	if err != nil {
		return nil, err
	}
	if result.Refusal != nil {
		return nil, call.Refused(result.Refusal)
	}
	return &v1.CreateSessionResponse{Session: sessionView(result.Session)}, nil
}

// ListSessions lists the newest sessions of the caller, or of the caller's tenant, newest first.
func (s *Service) ListSessions(ctx context.Context, req *v1.ListSessionsRequest) (*v1.ListSessionsResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	c, now := call.Of(ctx), time.Now().UnixNano()
	sessions := v.SessionsOfUser(c.Tenant, c.User)
	if req.GetAll() {
		sessions = v.SessionsOf(c.Tenant)
	}
	var good []*access.Session
	for session := range sessions {
		if session.ExpiresAt > now {
			good = append(good, session)
		}
	}
	slices.SortFunc(good, func(a, b *access.Session) int { return cmp.Compare(b.ID, a.ID) })
	out := &v1.ListSessionsResponse{}
	for _, session := range good[:min(len(good), maxListed)] {
		out.Sessions = append(out.Sessions, sessionView(session))
	}
	return out, nil
}

// RevokeSession ends a session of the caller, or of any user of the caller's tenant.
func (s *Service) RevokeSession(ctx context.Context, req *v1.RevokeSessionRequest) (*v1.RevokeSessionResponse, error) {
	id, ok := ident.ParseSession(req.GetSessionId())
	if !ok {
		return nil, call.NotFound("session", req.GetSessionId())
	}
	c := call.Of(ctx)
	result, err := replica.Propose[access.SessionResult](ctx, s.replica, access.RevokeSession{
		Tenant: c.Tenant, User: c.User, ID: id, AnyUser: req.GetAnyUser(), Actor: c.Actor(),
	})
	if err != nil {
		return nil, err
	}
	if result.Refusal != nil {
		return nil, call.Refused(result.Refusal)
	}
	return &v1.RevokeSessionResponse{}, nil
}

// VerifySessions returns the owners of sessions. The leader answers, or any replica where a stale answer will do, as for VerifyToken.
func (s *Service) VerifySessions(ctx context.Context, req *v1.VerifySessionsRequest) (*v1.VerifySessionsResponse, error) {
	if n := len(req.GetDigests()); n == 0 || n > maxVerified {
		return nil, call.Bad("digests", "must have 1 to %d entries, not %d", maxVerified, n)
	}
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now().UnixNano()
	var uses *tokenUse
	if term := s.term.Load(); term != nil && !call.Of(ctx).Stale {
		uses = &term.uses
	}
	out := &v1.VerifySessionsResponse{}
	for _, digest := range req.GetDigests() {
		answer := &v1.VerifiedSession{}
		if session, ok := v.SessionByDigest(hex.EncodeToString(digest)); ok && len(digest) == sha256.Size && session.ExpiresAt > now {
			answer.Session, answer.Member = sessionView(session), session.Member
			uses.noteSession(session.ID)
		}
		out.Sessions = append(out.Sessions, answer)
	}
	return out, nil
}

func sessionView(s *access.Session) *v1.Session {
	out := &v1.Session{
		SessionId: s.ID.String(), TenantId: s.Tenant, UserId: s.User, Permissions: s.Permissions, CreatedAt: call.Time(s.CreatedAt),
		ExpiresAt: call.Time(s.ExpiresAt), LastUsedAt: call.Time(s.LastUsedAt), Address: s.Address, UserAgent: s.UserAgent,
	}
	if s.Token != 0 {
		out.TokenId = s.Token.String()
	}
	return out
}
