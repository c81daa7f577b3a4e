package term

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/scheduler"
)

const (
	// reservePace is the least time between two decisions about reservations.
	reservePace = 100 * time.Millisecond
	// reserveAgain is how long after one the next is due while jobs wait: the time after which a start is reserved for a
	// job comes without an event.
	reserveAgain = 10 * time.Second
	// reserveRest is how many times longer than it took the pause after a decision is, so that the queue may be long.
	reserveRest = 20
)

// reserving decides which starts are promised, and what is let in beside them, at its own pace: it looks at more jobs and nodes
// than a pass.
type reserving struct {
	timer *time.Timer
	last  time.Time
	took  time.Duration
}

func newReserving() *reserving {
	r := &reserving{timer: time.NewTimer(0)}
	<-r.timer.C
	return r
}

// due says that a decision is due after a pass, and sees to it that it comes.
func (r *reserving) due() {
	r.timer.Reset(max(0, max(reservePace, reserveRest*r.took)-time.Since(r.last)))
}

// reserve promises starts to jobs that were blocked for long, and places those that delay none of them.
func (p *planner) reserve(ctx context.Context) {
	v := p.state.View()
	if len(p.blocked) == 0 && v.PromiseCount() == 0 {
		return
	}
	begun := time.Now()
	defer func() {
		p.reserving.last, p.reserving.took = time.Now(), time.Since(begun)
		p.reserving.timer.Reset(max(reserveAgain, reserveRest*p.reserving.took))
	}()
	opts := scheduler.Options{Model: p.learning.of(v), Now: max(v.Now(), begun.UnixNano())}
	starts, changed := scheduler.Reserve(v, slices.SortedFunc(maps.Keys(p.blocked), byClass), opts.Now, opts)
	if changed {
		answer, err := replica.Propose[jobverbs.PromiseResult](ctx, p.state, starts)
		if err != nil {
			p.failed(ctx, err)
			return
		}
		for _, r := range answer.Refused {
			p.log.Debug("start not promised", "job", r.Job, "reason", r.Reason)
		}
		v = p.state.View()
	}
	if v.PromiseCount() > 0 {
		opts = p.options(v)
		opts.Backfill = true
		p.carryOut(ctx, v, opts)
	}
}

func byClass(a, b work.ClassKey) int {
	switch {
	case work.ClassLess(a, b):
		return -1
	case work.ClassLess(b, a):
		return 1
	}
	return 0
}
