package term

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/raftnode"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/preempt"
)

const (
	// quietPace is the least time between two writes of passes that placed nothing: they write the reasons why jobs
	// wait, and that they were considered.
	quietPace = 100 * time.Millisecond
	// passPace is the least time between two passes that place: while hundreds of jobs come and go each second, one
	// commit for several of them is cheaper than one for each. The first pass after a pause is never delayed.
	passPace = 10 * time.Millisecond
	// replanPause is how long planning waits after a plan that was refused or failed.
	replanPause = 20 * time.Millisecond
	// maxFresh is the number of new jobs that are recorded one by one. Beyond it, a pass plans all classes.
	maxFresh = 4096
)

// demand records the changes that may let a waiting job run. The applying goroutine fills it, and the planning
// goroutine empties it; one pass handles all changes that accumulate while a plan is in flight.
type demand struct {
	mu   sync.Mutex
	wake chan struct{}
	// fresh are jobs that began to wait. freed: capacity may have grown.
	fresh []ident.Job
	freed bool
	// ended are jobs that succeeded, at most maxFresh.
	ended []ident.Job
	// newest is the greatest index of a job's creation.
	newest uint64
}

// newDemand returns a demand that begins at an index. A first pass over all classes is due, and its reasons are
// written, because the former leader may not have done so.
func newDemand(index uint64) *demand {
	d := &demand{wake: make(chan struct{}, 1), freed: true, newest: index}
	d.wake <- struct{}{}
	return d
}

func (d *demand) note(events []event.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	news := false
	for i := range events {
		e := &events[i]
		switch {
		case e.Topic == event.TopicJob && e.To == v1.JobState_QUEUED:
			news = true
			d.newest = max(d.newest, min(e.Job.Created(), e.Index))
			if len(d.fresh) < maxFresh {
				d.fresh = append(d.fresh, e.Job)
			} else {
				d.freed = true
			}
		case e.Topic == event.TopicJob && e.To == v1.JobState_SUCCEEDED && e.From != e.To && len(d.ended) < maxFresh:
			d.ended = append(d.ended, e.Job)
		case e.Topic == event.TopicLease && !e.Granted, e.Topic == event.TopicNode, e.Topic == event.TopicQueue, e.Topic == event.TopicQuota, e.Topic == event.TopicPolicy, e.Topic == event.TopicWindow, e.Topic == event.TopicState:
			news, d.freed = true, true
		}
	}
	if news {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
}

func (d *demand) take() (fresh, ended []ident.Job, freed bool, newest uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh, ended, freed = d.fresh, d.ended, d.freed
	d.fresh, d.ended, d.freed = nil, nil, false
	return fresh, ended, freed, d.newest
}

// again asks for another pass over all classes.
func (d *demand) again() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.freed = true
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// planner is the leader's scheduling loop. One plan is in flight at a time, and the next is made from a view that
// includes it: Propose returns after its entry was applied here.
type planner struct {
	*Term
	plans    scheduler.Planner
	learning learning
	// blocked are the classes that have been found to fit nowhere since capacity last grew. A new job of one of them
	// needs no pass, because it has the same needs.
	blocked scheduler.Blocked
	// placed is when a pass last placed something.
	placed time.Time
	// quiet fires when the next quiet write is due.
	quiet      *time.Timer
	pending    bool
	preempting *preempting
	reserving  *reserving
}

func (t *Term) plan(ctx context.Context) {
	p := &planner{Term: t, quiet: time.NewTimer(0), preempting: newPreempting(), reserving: newReserving()}
	defer p.quiet.Stop()
	defer p.preempting.timer.Stop()
	defer p.reserving.timer.Stop()
	<-p.quiet.C
	idle := true // the quiet timer is not running
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.demand.wake:
		case <-p.quiet.C:
			idle = true
		case <-p.preempting.timer.C:
			p.makeRoom(ctx)
		case <-p.reserving.timer.C:
			p.reserve(ctx)
		}
		if left := passPace - time.Since(p.placed); left > 0 {
			wait.For(ctx, left)
		}
		fresh, ended, freed, newest := t.demand.take()
		v := t.state.View()
		p.learning.ended(v, ended)
		if freed {
			p.blocked = scheduler.Blocked{}
		}
		if freed || p.worthwhile(v, fresh) {
			p.pass(ctx, v, false)
			v = t.state.View()
		}
		if freed || len(fresh) > 0 {
			p.preempting.due(p.blocked)
			p.reserving.due()
		}
		p.pending = p.pending || newest > v.Considered()
		if p.pending && idle {
			p.write(ctx, v)
			p.quiet.Reset(quietPace)
			idle = false
		}
	}
}

// worthwhile reports whether any of the new jobs is of a class that is not blocked.
func (p *planner) worthwhile(v *fsm.View, fresh []ident.Job) bool {
	for _, id := range fresh {
		if j, ok := v.Job(id); ok && j.Waiting() {
			if class := v.ClassOf(j); !p.blocked.Has(&class) {
				return true
			}
		}
	}
	return false
}

// pass plans and places until nothing more fits. With byOrder it also preempts for the policy's order.
func (p *planner) pass(ctx context.Context, v *fsm.View, byOrder bool) {
	opts := p.options(v)
	if byOrder {
		opts.Running = preempt.RunningIn(v)
	}
	p.carryOut(ctx, v, opts)
}

// options returns the options of a pass.
func (p *planner) options(v *fsm.View) scheduler.Options {
	return scheduler.Options{
		PerCommand: p.config.Placements, PerPass: 16 * p.config.Placements, Settled: p.settled, Model: p.learning.of(v),
		Now: time.Now().UnixNano(),
	}
}

// carryOut plans, and proposes the plan.
func (p *planner) carryOut(ctx context.Context, v *fsm.View, opts scheduler.Options) {
	start := time.Now()
	result := p.plans.Plan(v, opts)
	p.config.Figures.Planned(time.Since(start))
	p.blocked = result.Blocked
	if result.More {
		p.demand.again()
	}
	if result.ReasonsOnly {
		p.pending = true
		p.preemptForOrder(ctx, v, result.OrderPreemptions)
		return
	}
	p.placed = start
	for _, command := range result.Commands {
		answer, err := replica.Propose[jobverbs.PlaceResult](ctx, p.state, command)
		if err != nil {
			p.failed(ctx, err)
			return
		}
		p.config.Figures.Placed(len(answer.Placed))
		if len(answer.Refused) > 0 {
			// Something changed between the view and the entry. Freed capacity wakes the loop by itself, but refused
			// jobs must be planned again.
			p.log.Debug("placements refused", "count", len(answer.Refused), "first", answer.Refused[0].Reason)
			if len(answer.Placed) == 0 {
				wait.For(ctx, replanPause)
			}
			p.demand.again()
		}
	}
	p.preemptForOrder(ctx, v, result.OrderPreemptions)
}

// settled reports whether a node may run a task that may still be alive elsewhere (rule R3).
func (t *Term) settled(node string) bool { return t.liveness.Settled(node, time.Now()) }

// write writes why jobs wait, and up to which index they were considered. It plans again, because the reasons of the
// last pass may be old by now.
func (p *planner) write(ctx context.Context, v *fsm.View) {
	p.pending = false
	result := p.plans.Plan(v, scheduler.Options{PerCommand: 1, PerPass: 1, Settled: p.settled, Model: p.learning.of(v)})
	p.blocked = result.Blocked
	command := jobverbs.PlaceJobs{BasedOn: v.Index()}
	if result.Placed > 0 {
		p.demand.again() // A job fits after all: a pass is due.
	} else if len(result.Commands) > 0 {
		command = result.Commands[0]
	}
	if _, err := replica.Propose[jobverbs.PlaceResult](ctx, p.state, command); err != nil {
		p.failed(ctx, err)
	}
}

// failed waits a little after a proposal failed, and asks for another pass unless leadership is over.
func (p *planner) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if !errors.Is(err, raftnode.ErrBacklogFull) {
		p.log.Warn("plan was not taken", "error", err)
	}
	wait.For(ctx, replanPause)
	p.demand.again()
}
