package access

import (
	"context"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// touchPace is how often the uses of tokens are recorded, all at once.
const touchPace = time.Minute

// maxTouched limits the tokens in one command.
const maxTouched = 10_000

// tokenUse collects the tokens that were used in a term.
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

// noteTokenUse periodically records which tokens were used. Uses that a leader has not recorded when its term ends are
// lost.
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
					s.log.Warn("cannot record the uses of tokens", "error", err)
				}
			}
		}
	}
}
