package agent

import (
	"context"
	"time"
)

// lastLook is how long the end of a task waits for what the task wrote last.
const lastLook = 5 * time.Second

// looks has somebody look at a task on a goroutine of its own: a file system that hangs holds up nothing else, least of all the end of the
// task. It is used by one goroutine.
type looks struct {
	ctx    context.Context
	cancel context.CancelFunc
	asked  chan look
	found  chan []finding
	busy   bool
	began  time.Time
}

// look is when to look; the last one is told how the task ended.
type look struct {
	at              time.Time
	last, endedWell bool
}

func newLooks(scan func(context.Context, look) []finding) *looks {
	l := &looks{asked: make(chan look, 1), found: make(chan []finding, 1)}
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

// close ends the looking.
func (l *looks) close() { l.cancel() }

// ask begins a look, unless one is under way.
func (l *looks) ask(now time.Time) {
	if !l.busy {
		l.busy, l.began = true, time.Now()
		l.asked <- look{at: now}
	}
}

// came takes note of the end of a look, and says when the next one is due: what takes long is done seldom.
func (l *looks) came() time.Duration {
	l.busy = false
	return max(watchInterval, 9*time.Since(l.began))
}

// last looks for the last time, and returns all that it finds in time. over ends it early.
func (l *looks) last(endedWell bool, over <-chan struct{}) (found []finding, whole bool) {
	limit := time.NewTimer(lastLook)
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
func (l *looks) hurry(found []finding) ([]finding, bool) {
	l.cancel()
	grace := time.NewTimer(lastLook / 10)
	defer grace.Stop()
	select {
	case some := <-l.found:
		return append(found, some...), false
	case <-grace.C:
		return found, false
	}
}
