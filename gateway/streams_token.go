package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/gateway/auth"
)

// lastWords is how long the end of a stream may take to be written to a reader who may not go on.
const lastWords = 5 * time.Second

// tokenWatch looks again and again whether the caller of a stream may go on reading it: a stream lives for days, and a token
// is revoked, or runs out, before that.
type tokenWatch struct {
	x     *exchange
	rc    *http.ResponseController
	pause time.Duration
	// over is closed when the caller may not go on; why is set before.
	over chan struct{}
	why  *problem

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// watchToken begins to look; stop must follow.
func (e *events) watchToken() *tokenWatch {
	w := &tokenWatch{x: e.x, rc: e.rc, pause: e.x.server.config.Timeouts.StreamToken, over: make(chan struct{})}
	w.again()
	return w
}

func (w *tokenWatch) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.timer = time.AfterFunc(w.pause, w.look)
	}
}

func (w *tokenWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}

// look does not hold up the stream: it may have to wait for a coordinator.
func (w *tokenWatch) look() {
	p := w.x.mayGoOn(w.x.r.Context())
	if p == nil {
		w.again()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	w.why = p
	close(w.over)
	// Whoever does not read is not waited for.
	_ = w.rc.SetWriteDeadline(time.Now().Add(lastWords))
}

// mayGoOn is nil while the token is good for what it was good for at the beginning. When that cannot be found out now, it is
// found out later: no stream ends because the coordinators elect a leader.
func (x *exchange) mayGoOn(ctx context.Context) *problem {
	now, err := x.recheck(auth.WithAddress(ctx, x.server.proxies.ClientOf(x.r)))
	switch {
	case errors.Is(err, auth.ErrInvalidToken), err == nil && (now.Tenant != x.caller.Tenant || now.User != x.caller.User):
		return &problem{http: http.StatusUnauthorized, code: "AUTH_TOKEN_INVALID", message: "the token ran out or was revoked: go on from the last id with a good one"}
	case err == nil && len(x.route.anyOf) > 0 && !now.May(x.route.anyOf...):
		return &problem{http: http.StatusForbidden, code: "AUTHZ_PERMISSION_DENIED", message: "the token lost the permission to read this"}
	}
	return nil
}
