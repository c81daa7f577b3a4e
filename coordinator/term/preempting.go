package term

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/scheduler"
)

const (
	// preemptPace is the least time between two looks for jobs to preempt.
	preemptPace = time.Second
	// preemptAgain is how long after a look the next one is due while jobs wait: the time for which a running job is protected
	// ends without an event.
	preemptAgain = 10 * time.Second
)

// preempting looks for running jobs to preempt for blocked ones, at its own pace.
type preempting struct {
	timer *time.Timer
	last  time.Time
}

func newPreempting() *preempting {
	p := &preempting{timer: time.NewTimer(0)}
	<-p.timer.C
	return p
}

// due says that a look is due after a pass, and sees to it that it comes.
func (p *preempting) due(blocked map[work.ClassKey]bool) {
	if len(blocked) > 0 {
		p.timer.Reset(max(0, preemptPace-time.Since(p.last)))
	}
}

// makeRoom preempts running jobs for those that fit nowhere.
func (p *planner) makeRoom(ctx context.Context) {
	v := p.state.View()
	if !level.Preemption.Open(v.Level()) || len(p.blocked) == 0 {
		return
	}
	p.preempting.last = time.Now()
	defer p.preempting.timer.Reset(preemptAgain)
	made := scheduler.Preempt(v, slices.Collect(maps.Keys(p.blocked)), max(v.Now(), time.Now().UnixNano()))
	if len(made) == 0 {
		return
	}
	answer, err := replica.Propose[claims.PreemptResult](ctx, p.state, claims.PreemptJobs{Preemptions: made})
	if err != nil {
		p.failed(ctx, err)
		return
	}
	for _, r := range answer.Refused {
		p.log.Debug("preemption refused", "job", r.Job, "reason", r.Reason)
	}
}
