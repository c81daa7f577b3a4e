package stream

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// lastWords limits the time to write the end of a stream to a caller that may not continue to read.
const lastWords = 5 * time.Second

// tokenWatch checks periodically whether the caller of a stream may continue to read: a stream lives for days, and its
// token may be revoked or expire before.
type tokenWatch struct {
	ctx    context.Context
	reader Reader
	rc     *http.ResponseController
	pause  time.Duration
	// over is closed when the caller may not continue to read; why is set before.
	over chan struct{}
	why  error

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// watchToken starts the checks; the caller must call stop.
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

// look runs beside the stream: it may have to wait for a coordinator.
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
	// Do not wait for a caller that does not read.
	_ = w.rc.SetWriteDeadline(time.Now().Add(lastWords))
}
