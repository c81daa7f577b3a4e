package observe

import (
	"context"
	"time"
)

// LastLook is how long the end of a task waits for the last findings.
const LastLook = 5 * time.Second

// Scanner runs the looks of a Watcher on its own goroutine: a file system that hangs does not block anything else, in
// particular not the end of the task. Only one goroutine may use it.
type Scanner struct {
	ctx    context.Context
	cancel context.CancelFunc
	asked  chan look
	found  chan []Finding
	busy   bool
	began  time.Time
}

// look is a request for a look; the last one has the task's exit.
type look struct {
	at              time.Time
	last, endedWell bool
}

// Scanner makes a scanner for the watcher. Nothing else may use the watcher from then on.
func (w *Watcher) Scanner() *Scanner {
	return newScanner(func(ctx context.Context, l look) []Finding {
		w.endedWell = l.endedWell
		return w.scan(ctx, l.at, l.last)
	})
}

func newScanner(scan func(context.Context, look) []Finding) *Scanner {
	l := &Scanner{asked: make(chan look, 1), found: make(chan []Finding, 1)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	// The goroutine ends with the context, except if a system call does not return: nothing waits for that.
	go func() {
		for {
			select {
			case next := <-l.asked:
				l.found <- scan(l.ctx, next) // does not block: the channel has a buffer, and only one look is requested at a time
			case <-l.ctx.Done():
				return
			}
		}
	}()
	return l
}

// Close ends the scanner.
func (l *Scanner) Close() { l.cancel() }

// Ask starts a look, unless one is in progress.
func (l *Scanner) Ask(now time.Time) {
	if !l.busy {
		l.busy, l.began = true, time.Now()
		l.asked <- look{at: now}
	}
}

// Found delivers the findings of a look. Its reader calls Came.
func (l *Scanner) Found() <-chan []Finding { return l.found }

// Came records the end of a look, and returns when the next one is due: the longer a look takes, the longer the pause.
func (l *Scanner) Came() time.Duration {
	l.busy = false
	return max(Interval, 9*time.Since(l.began))
}

// Last makes the last look, and returns all findings that arrive in time. over ends it early.
func (l *Scanner) Last(endedWell bool, over <-chan struct{}) (found []Finding, whole bool) {
	limit := time.NewTimer(LastLook)
	defer limit.Stop()
	for asked := false; ; {
		if !l.busy {
			if asked {
				return found, true
			}
			l.busy, asked = true, true
			l.asked <- look{at: time.Now(), last: true, endedWell: endedWell}
		}
		select {
		case some := <-l.found:
			l.busy = false
			found = append(found, some...)
		case <-over:
			return found, false
		case <-limit.C:
			return l.hurry(found)
		}
	}
}

// hurry cancels a look that takes too long, and returns its findings if it ends at once.
func (l *Scanner) hurry(found []Finding) ([]Finding, bool) {
	l.cancel()
	grace := time.NewTimer(LastLook / 10)
	defer grace.Stop()
	select {
	case some := <-l.found:
		return append(found, some...), false
	case <-grace.C:
		return found, false
	}
}
