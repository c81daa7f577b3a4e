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
	"github.com/mindcoordinator/mind/gateway/guesses"
)

const (
	// TrustToken is how long a gateway believes what it was told of a good token: a revoked one may be good for so long at another
	// gateway.
	TrustToken = 10 * time.Second
	// doubtToken is how long it does not ask for an unknown one again.
	doubtToken  = time.Second
	maxTold     = 100_000
	verifyToken = 10 * time.Second
	// askLeader is how long the leader is asked. Without one any coordinator says what it has: it may not have heard that a token
	// was revoked, but without a leader nothing can be changed, and what one reads is as old.
	askLeader = 4 * time.Second
)

// APITokens knows the callers whose tokens the coordinators keep.
type APITokens struct {
	service v1.TokenServiceClient
	// guesses bounds the questions about tokens that this gateway has never known as good.
	guesses *guesses.Limiter

	mu   sync.Mutex
	told map[[sha256.Size]byte]told
	// asking are the questions under way: who comes with the same token waits for the answer.
	asking map[[sha256.Size]byte]*tokenQuestion
}

// tokenQuestion is one to the coordinators.
type tokenQuestion struct {
	answered chan struct{} // closed when what follows is set
	have     told
	err      error
	// dropped: whoever asked has gone, and others who wait have to ask themselves.
	dropped bool
}

// told is what the coordinators said of a token.
type told struct {
	caller *Caller // nil: nobody issued it
	until  time.Time
}

// NewAPITokens asks the coordinators by a client.
func NewAPITokens(service v1.TokenServiceClient) *APITokens {
	return &APITokens{service: service, guesses: guesses.New(), told: map[[sha256.Size]byte]told{}, asking: map[[sha256.Size]byte]*tokenQuestion{}}
}

// TooManyGuesses is returned for a token that was not looked up, because too many unknown ones came from the same address.
type TooManyGuesses struct{ Wait time.Duration }

func (e *TooManyGuesses) Error() string { return "too many unknown tokens from one address" }

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

// lookUp asks the coordinators, or waits for the answer to somebody else who asks about the same token.
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

// answer finds the answer to a question, unless the token may be one more guess of somebody who has guessed a lot. One that was good
// before is none.
func (t *APITokens) answer(ctx context.Context, q *tokenQuestion, digest [sha256.Size]byte, wasGood bool, now time.Time) (told, error) {
	defer func() {
		t.mu.Lock()
		delete(t.asking, digest)
		t.mu.Unlock()
		close(q.answered)
	}()
	outcome := guesses.Undecided
	if !wasGood {
		look, wait := t.guesses.Begin(now, addressOf(ctx), digest)
		if look == nil {
			q.dropped, q.err = false, &TooManyGuesses{wait}
			return q.have, q.err
		}
		defer func() { look.Done(outcome) }()
	}
	have, err := t.ask(ctx, digest, now)
	switch {
	case err != nil:
	case have.caller == nil:
		outcome = guesses.Bad
	default:
		outcome = guesses.Good
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

// Forget makes the next use of every token ask again: one was revoked here.
func (t *APITokens) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for digest, have := range t.told {
		have.until = time.Time{}
		t.told[digest] = have
	}
}

// TokenStart is what API tokens begin with, as published.
const TokenStart = "sgk_"

// MintToken makes an API token that nobody can guess.
func MintToken() string { return mint(TokenStart) }

func mint(start string) string {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	return start + base64.RawURLEncoding.EncodeToString(secret[:])
}
