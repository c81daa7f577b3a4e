package term

import (
	"context"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/scheduler/reserve"
)

const (
	// reservePace is the least time between two decisions about reserved starts.
	reservePace = 100 * time.Millisecond
	// reserveAgain is how long after a decision the next one is due while jobs wait: no event tells when a job has
	// waited for long enough.
	reserveAgain = 10 * time.Second
	// reserveRest is the pause after a decision, as a multiple of the time that it took, so that decisions never use
	// more than a small part of a processor.
	reserveRest = 20
)

// reserving times the decisions about reserved starts and backfill, which read more jobs and nodes than a pass.
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

// due schedules a decision after a pass.
func (r *reserving) due() {
	r.timer.Reset(max(0, max(reservePace, reserveRest*r.took)-time.Since(r.last)))
}

// reserve reserves starts for jobs that have been blocked for long, and places jobs that delay none of these starts.
func (p *planner) reserve(ctx context.Context) {
	v := p.state.View()
	if !p.blocked.Any() && v.PromiseCount() == 0 {
		return
	}
	begun := time.Now()
	defer func() {
		p.reserving.last, p.reserving.took = time.Now(), time.Since(begun)
		p.reserving.timer.Reset(max(reserveAgain, reserveRest*p.reserving.took))
	}()
	starts, changed := reserve.Starts(v, p.blocked.Keys(), begun.UnixNano(), p.learning.of(v))
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
		opts := p.options(v)
		opts.Backfill = true
		p.carryOut(ctx, v, opts)
	}
}
