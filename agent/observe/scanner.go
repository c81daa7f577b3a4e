package observe

import (
	"context"
	"time"
)

// LastLook is how long the end of a task waits for what the task wrote last.
const LastLook = 5 * time.Second

// Scanner looks at what a task writes, on a goroutine of its own: a file system that hangs holds up nothing else, least of all
// the end of the task. It is used by one goroutine.
type Scanner struct {
	ctx    context.Context
	cancel context.CancelFunc
	asked  chan look
	found  chan []Finding
	busy   bool
	began  time.Time
}

// look is when to look; the last one is told how the task ended.
type look struct {
	at              time.Time
	last, endedWell bool
}

// Scanner makes one for the watcher, which is used by nothing else from then on.
func (w *Watcher) Scanner() *Scanner {
	return newScanner(func(ctx context.Context, l look) []Finding {
		w.endedWell = l.endedWell
		return w.scan(ctx, l.at, l.last)
	})
}

func newScanner(scan func(context.Context, look) []Finding) *Scanner {
	l := &Scanner{asked: make(chan look, 1), found: make(chan []Finding, 1)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	// It ends when it is told to, but for a call of the system that does not come back: nobody waits for that.
	go func() {
		for {
			select {
			case next := <-l.asked:
				l.found <- scan(l.ctx, next) // there is room for one, and one is asked for at a time
			case <-l.ctx.Done():
				return
			}
		}
	}()
	return l
}

// Close ends the looking.
func (l *Scanner) Close() { l.cancel() }

// Ask begins a look, unless one is under way.
func (l *Scanner) Ask(now time.Time) {
	if !l.busy {
		l.busy, l.began = true, time.Now()
		l.asked <- look{at: now}
	}
}

// Found has what a look found. Who reads it calls Came.
func (l *Scanner) Found() <-chan []Finding { return l.found }

// Came takes note of the end of a look, and says when the next one is due: what takes long is done seldom.
func (l *Scanner) Came() time.Duration {
	l.busy = false
	return max(Interval, 9*time.Since(l.began))
}

// Last looks for the last time, and returns all that it finds in time. over ends it early.
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

// hurry ends a look that takes too long, and takes what it has found if it ends at once.
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
