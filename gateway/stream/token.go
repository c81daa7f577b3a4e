package stream

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// lastWords is how long the end of a stream may take to be written to a reader who may not go on.
const lastWords = 5 * time.Second

// tokenWatch looks again and again whether the caller of a stream may go on reading it: a stream lives for days, and a token
// is revoked, or runs out, before that.
type tokenWatch struct {
	ctx    context.Context
	reader Reader
	rc     *http.ResponseController
	pause  time.Duration
	// over is closed when the caller may not go on; why is set before.
	over chan struct{}
	why  error

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// watchToken begins to look; stop must follow.
func (e *events) watchToken() *tokenWatch {
	w := &tokenWatch{ctx: e.ctx, reader: e.reader, rc: e.rc, pause: e.times.Recheck, over: make(chan struct{})}
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
	why := w.reader.MayGoOn(w.ctx)
	if why == nil {
		w.again()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	w.why = why
	close(w.over)
	// Whoever does not read is not waited for.
	_ = w.rc.SetWriteDeadline(time.Now().Add(lastWords))
}
