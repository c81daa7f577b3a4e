package session

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/authlimit"
)

const (
	// Recheck is how often the session behind an event stream is looked at again. With what is remembered and the time of a
	// question, a session that was revoked ends within a second.
	Recheck = 400 * time.Millisecond
	// remember is how long an answer of the leader about a session is good, from the question on.
	remember = 400 * time.Millisecond
	// doubt is how long an unknown session is remembered.
	doubt = time.Second
	// inUse is how long after its last use a session is still asked about along with others.
	inUse = 2 * time.Second
	// askLeader is how long the leader is asked about an unknown session, and askLeaderAgain about one that was good: then any
	// coordinator may answer, so that a page need not wait for an election. askAny is how long that may take.
	askLeader      = 4 * time.Second
	askLeaderAgain = time.Second
	askAny         = 6 * time.Second
	// maxAsked limits the sessions of one question, as the coordinators do.
	maxAsked = 1000
	maxKnown = 100_000
)

type digest = [sha256.Size]byte

// Keeper authenticates callers by their sessions, which the coordinators keep.
type Keeper struct {
	service v1.SessionServiceClient
	limit   *authlimit.Limiter

	mu    sync.Mutex
	known map[digest]*known
	// asking has the question about each session that is being asked about.
	asking map[digest]*question
	// turn counts requests, questions and what is forgotten, to tell which came first: two of them may have the same time.
	turn int
	// forgot is when something was forgotten last.
	forgot int
}

// known has the last answer about a session.
type known struct {
	caller *auth.Caller // nil: it is nobody's
	// asked is when the question was put, and turn in which turn.
	asked time.Time
	turn  int
	// forgotten is the last turn in which the session may have been revoked here: an answer from before is good only for
	// requests that are as old.
	forgotten int
	used      time.Time
}

// question is one call about one or more sessions.
type question struct {
	about    []digest
	turn     int
	answered chan struct{} // closed when the fields below are set
	// callers has the answers; nil: the session is nobody's; missing: nothing was said of it.
	callers map[digest]*auth.Caller
	err     error
	// dropped: the request that put it is gone, and others have to ask again.
	dropped bool
}

// errUnsure is returned for a session that the only coordinator that was asked does not know. That proves nothing: it may lag, or
// have just started.
var errUnsure = fmt.Errorf("look up the session: %w",
	grpcstatus.Error(codes.Unavailable, "no leader, and the coordinator that was asked does not know it"))

// NewKeeper returns a keeper that asks a service, and limits the guesses of an address.
func NewKeeper(service v1.SessionServiceClient, limit *authlimit.Limiter) *Keeper {
	return &Keeper{service: service, limit: limit, known: map[digest]*known{}, asking: map[digest]*question{}}
}

// Authenticate returns the caller whose session has this digest. Any error but auth.ErrInvalidToken means that it could not be
// checked.
//
// It asks at most once, and waits for a question that was put before the request arrived at most once; only questions whose own
// requests have gone make it wait again.
func (k *Keeper) Authenticate(ctx context.Context, of digest) (*auth.Caller, error) {
	now := time.Now()
	k.mu.Lock()
	arrived := k.next()
	for {
		have := k.known[of]
		wasGood := have != nil && have.caller != nil
		if have != nil {
			have.used = now
		}
		// The end of a session never changes, so nobody has to be asked about it.
		if wasGood && ended(have.caller) || have != nil && have.fresh(now, arrived) {
			caller := have.caller
			k.mu.Unlock()
			return alive(caller)
		}
		q, mine := k.asking[of], false
		if q == nil {
			q, mine = k.put(of, wasGood, now), true
		}
		k.mu.Unlock()
		if mine {
			k.answer(ctx, q, wasGood)
		} else {
			select {
			case <-q.answered:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		switch caller, said := q.callers[of]; {
		case q.err != nil && (mine || !q.dropped):
			return nil, q.err
		case q.err == nil && !said:
			return nil, errUnsure
		case q.err == nil && q.turn > arrived:
			return alive(caller)
		}
		k.mu.Lock()
	}
}

// next returns the number of a new turn. The lock is held.
func (k *Keeper) next() int {
	k.turn++
	return k.turn
}

func ended(caller *auth.Caller) bool { return !time.Now().Before(caller.Expires) }

func alive(caller *auth.Caller) (*auth.Caller, error) {
	if caller == nil || ended(caller) {
		return nil, auth.ErrInvalidToken
	}
	return caller, nil
}

// fresh reports whether what is known is good for a request that arrived at a time, in a turn.
func (have *known) fresh(now time.Time, arrived int) bool {
	long := remember
	if have.caller == nil {
		long = doubt
	}
	return have.turn > arrived || have.turn > have.forgotten && !have.asked.Before(now.Add(-long))
}

// put makes a question about a session. If it was good before, the question is about all good ones in use that will have to be
// asked about soon. The lock is held.
func (k *Keeper) put(of digest, wasGood bool, now time.Time) *question {
	q := &question{about: []digest{of}, turn: k.next(), answered: make(chan struct{})}
	if wasGood {
		for other, have := range k.known {
			if len(q.about) == maxAsked {
				break
			}
			if other != of && k.asking[other] == nil && have.caller != nil && !ended(have.caller) && now.Sub(have.used) < inUse &&
				(now.Sub(have.asked) > remember/2 || have.turn < have.forgotten) {
				q.about = append(q.about, other)
			}
		}
	}
	for _, other := range q.about {
		k.asking[other] = q
	}
	return q
}

// answer asks the coordinators, unless the address has sent too many unknown credentials. A session that was good before is not
// a guess.
func (k *Keeper) answer(ctx context.Context, q *question, wasGood bool) {
	defer func() {
		k.mu.Lock()
		for _, other := range q.about {
			delete(k.asking, other)
		}
		k.mu.Unlock()
		close(q.answered)
	}()
	if wasGood {
		q.err = k.ask(ctx, q, askLeaderAgain)
		q.dropped = ctx.Err() != nil
		return
	}
	of := q.about[0]
	look, wait := k.limit.Begin(time.Now(), auth.AddressOf(ctx), of)
	if look == nil {
		q.err = &auth.TooManyFailures{Wait: wait}
		return
	}
	q.err = k.ask(ctx, q, askLeader)
	q.dropped = ctx.Err() != nil
	look.Done(q.outcome(of))
}

func (q *question) outcome(of digest) authlimit.Outcome {
	caller, said := q.callers[of]
	switch {
	case q.err != nil || !said:
		return authlimit.Undecided
	case caller == nil:
		return authlimit.Bad
	}
	return authlimit.Good
}

// ask asks the leader, or any coordinator if there is none, and remembers the answers.
func (k *Keeper) ask(ctx context.Context, q *question, leader time.Duration) error {
	asked, about := time.Now(), q.about
	request := &v1.VerifySessionsRequest{}
	for i := range about {
		request.Digests = append(request.Digests, about[i][:])
	}
	within, cancel := context.WithTimeout(ctx, leader)
	reply, err := k.service.VerifySessions(client.WithCall(within, client.Call{RetryFor: leader}), request)
	cancel()
	alone := false
	if code := grpcstatus.Code(err); (code == codes.Unavailable || code == codes.DeadlineExceeded) && ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, askAny)
		old, errOld := k.service.VerifySessions(client.WithCall(within, client.Call{RetryFor: askAny, Consistency: status.Stale}), request)
		cancel()
		if errOld == nil {
			reply, err, alone = old, nil, true
		}
	}
	if err == nil && len(reply.GetSessions()) != len(about) {
		err = fmt.Errorf("%d answers to %d questions", len(reply.GetSessions()), len(about))
	}
	if err != nil {
		return fmt.Errorf("look up the session: %w", err)
	}
	k.learn(q, reply.GetSessions(), asked, alone)
	return nil
}

// learn remembers answers. That a coordinator alone does not know a session says nothing of it.
func (k *Keeper) learn(q *question, answers []*v1.VerifiedSession, asked time.Time, alone bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.known) >= maxKnown {
		k.forgetUnused(asked)
	}
	q.callers = make(map[digest]*auth.Caller, len(q.about))
	for i, of := range q.about {
		caller := callerOf(answers[i])
		if caller == nil && alone {
			continue
		}
		q.callers[of] = caller
		have := k.known[of]
		if have == nil {
			have = &known{used: asked}
			k.known[of] = have
		}
		have.caller, have.asked, have.turn = caller, asked, q.turn
		if q.turn < k.forgot {
			have.forgotten = k.forgot // This session may be forgotten meanwhile, when it was not known yet.
		}
	}
}

func (k *Keeper) forgetUnused(now time.Time) {
	for of, have := range k.known {
		if have.caller == nil || now.Sub(have.used) > inUse {
			delete(k.known, of)
		}
	}
	if len(k.known) >= maxKnown {
		clear(k.known)
	}
}

func callerOf(answer *v1.VerifiedSession) *auth.Caller {
	s := answer.GetSession()
	if s == nil {
		return nil
	}
	return &auth.Caller{
		Tenant: s.GetTenantId(), User: s.GetUserId(), Permissions: s.GetPermissions(), Member: answer.GetMember(), Token: s.GetTokenId(),
		Session: s, Expires: s.GetExpiresAt().AsTime(),
	}
}

// ForgetSession makes the next use of a session ask again, after it was revoked here.
func (k *Keeper) ForgetSession(id string) {
	k.forget(func(s *v1.Session) bool { return s.GetSessionId() == id })
}

// ForgetToken makes the next use of each session that came from an API token ask again, after the token was revoked here.
func (k *Keeper) ForgetToken(id string) {
	k.forget(func(s *v1.Session) bool { return s.GetTokenId() == id })
}

func (k *Keeper) forget(gone func(*v1.Session) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgot = k.next()
	for _, have := range k.known {
		if have.caller != nil && gone(have.caller.Session) {
			have.forgotten = k.forgot
		}
	}
}
