package term

import (
	"context"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/preempt"
)

const (
	// preemptPace is the least time between two searches for jobs to preempt.
	preemptPace = time.Second
	// preemptAgain is how long after a search the next one is due while jobs wait: no event tells when the protection
	// of a running job ends.
	preemptAgain = 10 * time.Second
)

// preempting times the searches for running jobs to preempt.
type preempting struct {
	timer *time.Timer
	last  time.Time
	// orderDecided is when preemption for the policy's order was last decided.
	orderDecided time.Time
}

func newPreempting() *preempting {
	p := &preempting{timer: time.NewTimer(0)}
	<-p.timer.C
	return p
}

// due schedules a search after a pass, if there are blocked classes.
func (p *preempting) due(blocked scheduler.Blocked) {
	if blocked.Any() {
		p.timer.Reset(max(0, preemptPace-time.Since(p.last)))
	}
}

// makeRoom preempts running jobs for jobs that fit nowhere.
func (p *planner) makeRoom(ctx context.Context) {
	v := p.state.View()
	if !p.blocked.Any() {
		return
	}
	p.preempting.last = time.Now()
	defer p.preempting.timer.Reset(preemptAgain)
	p.preempt(ctx, preempt.Choose(v, p.blocked.Keys(), max(v.Now(), time.Now().UnixNano())))
	v = p.state.View()
	if policy := v.Policy(); policy.Preemption.Enabled && time.Since(p.preempting.orderDecided) >= time.Duration(policy.Preemption.Every) {
		p.preempting.orderDecided = time.Now()
		p.pass(ctx, p.state.View(), true)
	}
}

// preemptForOrder preempts the jobs that a plan of a view has chosen for the policy's order. The plan compares priorities
// after aging. The state refuses a victim whose own priority is higher than the job's, or that has begun another attempt.
func (p *planner) preemptForOrder(ctx context.Context, v *fsm.View, chosen []preempt.Decision) {
	var made []jobverbs.Preemption
	for _, x := range chosen {
		m := jobverbs.Preemption{Job: x.For.Job, Attempt: x.For.Attempt, Tasks: x.For.Tasks}
		for _, id := range x.Victims {
			if j, ok := v.Job(id); ok {
				m.Victims = append(m.Victims, jobverbs.Victim{Job: id, Attempt: j.Attempt})
			}
		}
		made = append(made, m)
	}
	p.preempt(ctx, made)
}

func (p *planner) preempt(ctx context.Context, made []jobverbs.Preemption) {
	if len(made) == 0 {
		return
	}
	answer, err := replica.Propose[jobverbs.PreemptResult](ctx, p.state, jobverbs.PreemptJobs{Preemptions: made})
	if err != nil {
		p.failed(ctx, err)
		return
	}
	for _, r := range answer.Refused {
		p.log.Debug("preemption refused", "job", r.Job, "reason", r.Reason)
	}
}
