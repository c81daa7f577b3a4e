package coordinator

import (
	"context"
	"strings"
	"sync"
	"time"
)

// epoch is the time during which one leader is known. It ends when another one is, or none.
type epoch struct {
	mu     sync.Mutex
	hint   string // "id=grpc_addr"
	ctx    context.Context
	cancel context.CancelFunc
}

// become begins a new epoch unless the leader is the same.
func (e *epoch) become(hint string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx != nil && e.hint == hint {
		return
	}
	if e.cancel != nil {
		e.cancel()
	}
	e.hint = hint
	e.ctx, e.cancel = context.WithCancel(context.Background())
}

// known is closed as soon as a leader is known.
func (e *epoch) known() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx != nil && e.hint == "" {
		return e.ctx.Done()
	}
	now := make(chan struct{})
	close(now)
	return now
}

// deposedGrace is how long a leader that leads no more may still take to answer: one that handed leadership on in an
// orderly way answers what it was asked before.
const deposedGrace = 500 * time.Millisecond

// onEnd calls f a little after the leader at that address is not known to lead any more, unless ctx ends or stop is
// called before.
func (e *epoch) onEnd(ctx context.Context, addr string, f func()) (stop func() bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil || !strings.HasSuffix(e.hint, "="+addr) {
		// The news of this leader has not come in here yet; whoever asks has them from elsewhere.
		return func() bool { return true }
	}
	return context.AfterFunc(e.ctx, func() {
		if pause(ctx, deposedGrace); ctx.Err() == nil {
			f()
		}
	})
}
