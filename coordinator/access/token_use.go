package access

import (
	"context"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// touchPace is how often the uses of tokens are written down, all at once.
const touchPace = time.Minute

// maxTouched bounds the tokens that one command notes.
const maxTouched = 10_000

// tokenUse collects which tokens were used in a term.
type tokenUse struct {
	mu   sync.Mutex
	used map[ident.Token]struct{}
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

func (u *tokenUse) take() []ident.Token {
	u.mu.Lock()
	defer u.mu.Unlock()
	ids := make([]ident.Token, 0, len(u.used))
	for id := range u.used {
		ids = append(ids, id)
	}
	u.used = nil
	return ids
}

// noteTokenUse writes down, now and then, which tokens were used. What a leader had not
// written when its term ended is forgotten.
func (s *Service) noteTokenUse(ctx context.Context, uses *tokenUse) {
	ticker := time.NewTicker(touchPace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if ids := uses.take(); len(ids) > 0 {
				if _, err := replica.Propose[access.TokenResult](ctx, s.replica, access.TouchTokens{IDs: ids}); err != nil && ctx.Err() == nil {
					s.log.Warn("uses of tokens were not written down", "error", err)
				}
			}
		}
	}
}
