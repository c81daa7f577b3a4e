package access

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// touchPace is how often the uses of tokens and sessions are recorded, all at once.
const touchPace = time.Minute

// maxTouched limits the tokens in one command, and the sessions.
const maxTouched = 10_000

// tokenUse collects the tokens and sessions that were used in a term.
type tokenUse struct {
	mu       sync.Mutex
	used     map[ident.Token]struct{}
	sessions map[ident.Session]struct{}
}

func (u *tokenUse) note(id ident.Token) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.used == nil {
		u.used = map[ident.Token]struct{}{}
	}
	if len(u.used) < maxTouched {
		u.used[id] = struct{}{}
	}
}

// noteSession is for a nil tokenUse, too: without a term nothing is recorded.
func (u *tokenUse) noteSession(id ident.Session) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sessions == nil {
		u.sessions = map[ident.Session]struct{}{}
	}
	if len(u.sessions) < maxTouched {
		u.sessions[id] = struct{}{}
	}
}

func (u *tokenUse) take() access.TouchTokens {
	u.mu.Lock()
	defer u.mu.Unlock()
	used := access.TouchTokens{IDs: slices.Sorted(maps.Keys(u.used)), Sessions: slices.Sorted(maps.Keys(u.sessions))}
	u.used, u.sessions = nil, nil
	return used
}

// noteTokenUse periodically records which tokens and sessions were used. Uses that a leader has not recorded when its term ends
// are lost.
func (s *Service) noteTokenUse(ctx context.Context, uses *tokenUse) {
	ticker := time.NewTicker(touchPace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if used := uses.take(); len(used.IDs)+len(used.Sessions) > 0 {
				if _, err := replica.Propose[access.TokenResult](ctx, s.replica, used); err != nil && ctx.Err() == nil {
					s.log.Warn("cannot record the uses of tokens", "error", err)
				}
			}
		}
	}
}
