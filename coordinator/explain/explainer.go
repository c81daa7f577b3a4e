package explain

import (
	"context"
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/whatif"
)

const (
	// rest is the pause before the next search for remedies for the same tenant, as a multiple of the time of the last
	// one.
	rest = 20
	// quick is the time of a search up to which no pause follows.
	quick = 10 * time.Millisecond
	// maxResting bounds the pauses that are kept.
	maxResting = 1000
)

// Explainer finds changes that would let jobs start. It answers one question at a time.
type Explainer struct {
	turn chan struct{}

	mu sync.Mutex
	// resting are the ends of the pauses, by tenant.
	resting map[string]time.Time
}

// New makes an Explainer.
func New() *Explainer {
	return &Explainer{turn: make(chan struct{}, 1), resting: map[string]time.Time{}}
}

// Remedies returns changes with which a QUEUED job would start now; now is the time of the view. It returns false if it
// did not search, because the tenant is in the pause after a search that took long.
func (e *Explainer) Remedies(ctx context.Context, v *fsm.View, j *work.Job, now time.Time) ([]*v1.Remedy, bool) {
	if j.State != v1.JobState_QUEUED || claimed(v, j) {
		return nil, true
	}
	j = planned(v, j)
	if e.rests(j.Tenant) || !e.begin(ctx) {
		return nil, false
	}
	defer e.end()
	start := time.Now()
	found := whatif.Remedies(v, j, logTime(v, now))
	e.took(j.Tenant, time.Since(start))
	var out []*v1.Remedy
	for i := range found {
		out = append(out, remedy(&found[i]))
	}
	return out, true
}

// WhatIf returns what would happen to a QUEUED job with a change; now is the time of the view.
func (e *Explainer) WhatIf(ctx context.Context, v *fsm.View, j *work.Job, now time.Time, suppose []string) (*v1.WhatIf, error) {
	c, err := e.change(ctx, v, j, suppose)
	if err != nil {
		return nil, err
	}
	if !e.begin(ctx) {
		return nil, ctx.Err()
	}
	defer e.end()
	j = planned(v, j)
	a, err := whatif.Try(v, j, c, logTime(v, now), whatif.Prices(v))
	if err != nil {
		return nil, call.Bad("what_if", "%s", err)
	}
	out := answer(suppose, a)
	if a.Starts() {
		return out, nil
	}
	if a.Job.HeldBack() {
		out.Obstacles = held(v, a.Job)
	} else {
		out.Obstacles = waiting(v, a.View, a.Job, a.Why)
	}
	if out.Reason = words.Of(a.Why); out.Reason == "" && len(out.Obstacles) > 0 {
		out.Reason = out.Obstacles[0].Message
	}
	if a.Known && a.Start.At != 0 {
		out.EstimatedStartAt = call.Time(a.Start.At)
	}
	if a.Start.After != 0 {
		out.StartsAfter = a.Start.After.String()
	}
	return out, nil
}

// change reads a supposed change, and checks that the caller may ask for it.
func (e *Explainer) change(ctx context.Context, v *fsm.View, j *work.Job, suppose []string) (whatif.Change, error) {
	c, err := whatif.Parse(suppose)
	switch {
	case err != nil:
		return c, call.Bad("what_if", "%s", err)
	case j.State != v1.JobState_QUEUED:
		return c, call.Bad("what_if", "%s is %s: only what waits can be asked about", j.ID, j.State)
	case claimed(v, j):
		return c, call.Bad("what_if", "places are kept for %s at the moment: ask again when it has started, or when they are given up", j.ID)
	}
	for _, id := range c.Cancel {
		if _, err := call.Of(ctx).Job(v, id.String()); err != nil {
			return c, err
		}
	}
	if c.Queue != nil {
		if _, ok := v.Queue(*c.Queue); !ok {
			return c, call.Bad("what_if", "there is no queue %q: the queues are %s", *c.Queue, v.QueueNames())
		}
	}
	if queue, tells := whatif.Tells(v, planned(v, j), &c); tells && !call.Of(ctx).Operator {
		return c, call.Bad("what_if", "the answer to this number of GPUs would tell how much of the limit of queue %q others hold: submit such a job to see whether it starts", queue)
	}
	return c, nil
}

// planned returns the job that the planner plans: for an element that has no row yet, its array.
func planned(v *fsm.View, j *work.Job) *work.Job {
	if _, ok := v.Job(j.ID); ok {
		return j
	}
	if array, ok := v.Job(j.ID.Submitted()); ok {
		return array
	}
	return j
}

func answer(suppose []string, a *whatif.Answer) *v1.WhatIf {
	return &v1.WhatIf{WhatIf: suppose, StartsNow: a.Starts(), NodeIds: a.Nodes, Preempts: int32(a.Preempts)}
}

func claimed(v *fsm.View, j *work.Job) bool {
	_, kept := v.ClaimOf(j.ID)
	return kept
}

// logTime returns the time by this replica's clock, or the log's if that is ahead.
func logTime(v *fsm.View, now time.Time) time.Time { return time.Unix(0, max(v.Now(), now.UnixNano())) }

func (e *Explainer) begin(ctx context.Context) bool {
	select {
	case e.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *Explainer) end() { <-e.turn }

func (e *Explainer) rests(tenant string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Now().Before(e.resting[tenant])
}

// took begins the pause of a tenant after a search.
func (e *Explainer) took(tenant string, d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.resting, tenant)
	if d < quick {
		return
	}
	if now := time.Now(); len(e.resting) >= maxResting {
		for name, until := range e.resting { // order-free: all that are over
			if now.After(until) {
				delete(e.resting, name)
			}
		}
	}
	e.resting[tenant] = time.Now().Add(rest * d)
}
