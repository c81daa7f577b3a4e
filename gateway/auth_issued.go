package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// How long a gateway believes what it was told of a token: a revoked one may be good for so long at another gateway, and an unknown one is
// not asked for again for so long.
const (
	trustToken  = 10 * time.Second
	doubtToken  = time.Second
	maxTold     = 100_000
	verifyToken = 10 * time.Second
	// askLeader is how long the leader is asked. Without one any coordinator says what it has: it may not have heard that a token
	// was revoked, but without a leader nothing can be changed, and what one reads is as old.
	askLeader = 4 * time.Second
)

// apiTokens knows the callers whose tokens the coordinators keep.
type apiTokens struct {
	service v1.TokenServiceClient

	mu   sync.Mutex
	told map[[sha256.Size]byte]told
}

// told is what the coordinators said of a token.
type told struct {
	caller *Caller // nil: nobody issued it
	until  time.Time
}

func newAPITokens(service v1.TokenServiceClient) *apiTokens {
	return &apiTokens{service: service, told: map[[sha256.Size]byte]told{}}
}

func (t *apiTokens) Authenticate(ctx context.Context, token string) (*Caller, error) {
	if !strings.HasPrefix(token, tokenStart) {
		return nil, ErrInvalidToken
	}
	digest, now := sha256.Sum256([]byte(token)), time.Now()
	t.mu.Lock()
	have, ok := t.told[digest]
	t.mu.Unlock()
	if !ok || now.After(have.until) {
		var err error
		if have, err = t.ask(ctx, digest, now); err != nil {
			return nil, err
		}
	}
	if have.caller == nil {
		return nil, ErrInvalidToken
	}
	return have.caller, nil
}

func (t *apiTokens) ask(ctx context.Context, digest [sha256.Size]byte, now time.Time) (told, error) {
	ctx, cancel := context.WithTimeout(ctx, verifyToken)
	defer cancel()
	request := &v1.VerifyTokenRequest{Digest: digest[:]}
	reply, err := t.service.VerifyToken(client.WithCall(ctx, client.Call{RetryFor: askLeader}), request)
	if code := grpcstatus.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded {
		old, errOld := t.service.VerifyToken(client.WithCall(ctx, client.Call{RetryFor: verifyToken, Consistency: status.Stale}), request)
		// That one does not know a token proves nothing: it may be behind, or have just been started.
		if grpcstatus.Code(errOld) != codes.NotFound {
			reply, err = old, errOld
		}
	}
	answer := told{until: now.Add(doubtToken)}
	switch {
	case grpcstatus.Code(err) == codes.NotFound:
	case err != nil:
		return told{}, fmt.Errorf("ask whose token it is: %w", err)
	default:
		k := reply.GetToken()
		answer = told{caller: &Caller{Tenant: k.GetTenantId(), User: k.GetUserId(), Permissions: k.GetPermissions(), Token: k.GetTokenId()}, until: now.Add(trustToken)}
		if expires := k.GetExpiresAt(); expires != nil && expires.AsTime().Before(answer.until) {
			answer.until = expires.AsTime()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.told) >= maxTold {
		for k, old := range t.told {
			if now.After(old.until) || old.caller == nil {
				delete(t.told, k)
			}
		}
		if len(t.told) >= maxTold {
			clear(t.told)
		}
	}
	t.told[digest] = answer
	return answer, nil
}

// forget makes the next use of every token ask again: one was revoked here.
func (t *apiTokens) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.told)
}
