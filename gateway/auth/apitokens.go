package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/authlimit"
)

const (
	// TrustToken is how long a gateway caches a valid token: a token that was revoked at another gateway may be
	// accepted for this long.
	TrustToken = 10 * time.Second
	// doubtToken is how long a gateway caches an unknown token.
	doubtToken  = time.Second
	maxTold     = 100_000
	verifyToken = 10 * time.Second
	// askLeader is how long the leader is asked. Without a leader any coordinator answers from its state. It may lack a
	// revocation, but without a leader nothing can be changed, and the state that a caller reads is equally old.
	askLeader = 4 * time.Second
)

// APITokens authenticates callers by the tokens that the coordinators keep.
type APITokens struct {
	service v1.TokenServiceClient
	// limit limits the look-ups of tokens that this gateway has never seen as valid.
	limit *authlimit.Limiter

	mu   sync.Mutex
	told map[[sha256.Size]byte]told
	// asking holds the look-ups in progress: requests with the same token share one.
	asking map[[sha256.Size]byte]*tokenQuestion
}

// tokenQuestion is one look-up at the coordinators.
type tokenQuestion struct {
	answered chan struct{} // closed when the fields below are set
	have     told
	err      error
	// dropped: the caller of the look-up is gone, and the waiting requests have to look up the token themselves.
	dropped bool
}

// told is an answer of the coordinators about a token.
type told struct {
	caller *Caller // nil: the token does not exist
	until  time.Time
}

// NewAPITokens returns an authenticator that looks up tokens with a client.
func NewAPITokens(service v1.TokenServiceClient) *APITokens {
	return &APITokens{service: service, limit: authlimit.New(), told: map[[sha256.Size]byte]told{}, asking: map[[sha256.Size]byte]*tokenQuestion{}}
}

// Limit returns what limits the look-ups, so that guesses of other credentials are counted with those of tokens.
func (t *APITokens) Limit() *authlimit.Limiter { return t.limit }

// TooManyFailures is returned for a token that was not looked up, because the same address has sent too many unknown
// tokens.
type TooManyFailures struct{ Wait time.Duration }

func (e *TooManyFailures) Error() string { return "too many unknown tokens from one address" }

// Authenticate implements Authenticator.
func (t *APITokens) Authenticate(ctx context.Context, token string) (*Caller, error) {
	if !strings.HasPrefix(token, TokenStart) {
		return nil, ErrInvalidToken
	}
	return t.AuthenticateDigest(ctx, sha256.Sum256([]byte(token)))
}

// AuthenticateDigest implements DigestAuthenticator.
func (t *APITokens) AuthenticateDigest(ctx context.Context, digest [sha256.Size]byte) (*Caller, error) {
	now := time.Now()
	t.mu.Lock()
	have, ok := t.told[digest]
	t.mu.Unlock()
	if !ok || now.After(have.until) {
		var err error
		if have, err = t.lookUp(ctx, digest, have.caller != nil, now); err != nil {
			return nil, err
		}
	}
	if have.caller == nil {
		return nil, ErrInvalidToken
	}
	return have.caller, nil
}

// lookUp asks the coordinators, or waits for another request's look-up of the same token.
func (t *APITokens) lookUp(ctx context.Context, digest [sha256.Size]byte, wasGood bool, now time.Time) (told, error) {
	for {
		t.mu.Lock()
		q, ok := t.asking[digest]
		if !ok {
			q = &tokenQuestion{answered: make(chan struct{}), dropped: true}
			t.asking[digest] = q
		}
		t.mu.Unlock()
		if !ok {
			return t.answer(ctx, q, digest, wasGood, now)
		}
		select {
		case <-q.answered:
		case <-ctx.Done():
			return told{}, ctx.Err()
		}
		if !q.dropped {
			return q.have, q.err
		}
	}
}

// answer looks up a token, unless its address has sent too many unknown tokens. A token that was valid before is not a
// guess.
func (t *APITokens) answer(ctx context.Context, q *tokenQuestion, digest [sha256.Size]byte, wasGood bool, now time.Time) (told, error) {
	defer func() {
		t.mu.Lock()
		delete(t.asking, digest)
		t.mu.Unlock()
		close(q.answered)
	}()
	outcome := authlimit.Undecided
	if !wasGood {
		look, wait := t.limit.Begin(now, AddressOf(ctx), digest)
		if look == nil {
			q.dropped, q.err = false, &TooManyFailures{wait}
			return q.have, q.err
		}
		defer func() { look.Done(outcome) }()
	}
	have, err := t.ask(ctx, digest, now)
	switch {
	case err != nil:
	case have.caller == nil:
		outcome = authlimit.Bad
	default:
		outcome = authlimit.Good
	}
	q.have, q.err, q.dropped = have, err, ctx.Err() != nil
	return have, err
}

func (t *APITokens) ask(ctx context.Context, digest [sha256.Size]byte, now time.Time) (told, error) {
	ctx, cancel := context.WithTimeout(ctx, verifyToken)
	defer cancel()
	request := &v1.VerifyTokenRequest{Digest: digest[:]}
	reply, err := t.service.VerifyToken(client.WithCall(ctx, client.Call{RetryFor: askLeader}), request)
	if code := grpcstatus.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded {
		old, errOld := t.service.VerifyToken(client.WithCall(ctx, client.Call{RetryFor: verifyToken, Consistency: status.Stale}), request)
		// One replica's "unknown" proves nothing: it may lag, or have just started.
		if grpcstatus.Code(errOld) != codes.NotFound {
			reply, err = old, errOld
		}
	}
	answer := told{until: now.Add(doubtToken)}
	switch {
	case grpcstatus.Code(err) == codes.NotFound:
	case err != nil:
		return told{}, fmt.Errorf("look up the token: %w", err)
	default:
		k := reply.GetToken()
		answer = told{caller: &Caller{Tenant: k.GetTenantId(), User: k.GetUserId(), Permissions: k.GetPermissions(), Token: k.GetTokenId()}, until: now.Add(TrustToken)}
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

// Forget drops the cache after a token was revoked here, so that the next use of every token is looked up again.
func (t *APITokens) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for digest, have := range t.told {
		have.until = time.Time{}
		t.told[digest] = have
	}
}

// TokenStart is the prefix of API tokens, as published.
const TokenStart = "sgk_"

// MintToken creates a random API token.
func MintToken() string { return mint(TokenStart) }

func mint(start string) string {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	return start + base64.RawURLEncoding.EncodeToString(secret[:])
}
