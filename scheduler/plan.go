// Package scheduler plans: from a view of the state and the time, it decides which waiting jobs should get which GPUs.
//
// Contract. [Plan] is a pure function: it reads the view, changes nothing and keeps nothing. Its result is only a proposal;
// the state checks each placement again when it applies it, and refuses those that no longer fit.
//
// Guarantees. Within one plan no GPU, CPU or memory is given twice, no job appears twice, a gang has all its tasks or is
// absent, and no quota and no limit of a queue is exceeded. A plan that is applied to the state it was made from is never
// refused. A job whose last attempt may still be alive is placed only on nodes that may run a replacement, and that
// Options.Settled trusts.
//
// Fairness. Among jobs of the same priority it is the turn of the queue, in it of the tenant, and in that of the user with
// the smallest share (fair.go).
//
// Not guaranteed. That a large gang ever gets its nodes while smaller jobs keep coming: a class that does not fit is
// skipped. Backfill would keep later jobs from what a blocked gang is waiting for: where a class is blocked, in this
// file. What a preemption keeps for a job is not free to others: see [Preempt].
//
// A gang for which places are held gets what it is missing before all others (held.go): the rest of it costs GPUs that
// nobody uses meanwhile.
package scheduler

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/scheduler/place"
	"github.com/mindcoordinator/mind/scheduler/predict"
)

// View is what planning reads from the state. *fsm.View implements it.
type View interface {
	Index() uint64
	Nodes() iter.Seq[*work.Node]
	Use(node string) work.NodeUse
	// Classes are the groups of waiting jobs, Lanes the parts of one by user. LaneJobs are the jobs of a lane, highest
	// priority first, then oldest.
	Classes() iter.Seq[work.ClassKey]
	Lanes(class work.ClassKey) iter.Seq[work.LaneKey]
	LaneJobs(lane work.LaneKey) iter.Seq[*work.Job]
	// LaneJobsAfter fills buf with the jobs after a given one.
	LaneJobsAfter(lane work.LaneKey, after *work.Job, buf []*work.Job) []*work.Job
	ClassReason(work.ClassKey) reason.Reason
	// Array returns the row of an array.
	Array(ident.Job) (*work.Job, bool)
	// Quota is what a tenant may have, Usage what it has; QueueTreeGPUs is what the jobs of a queue and of those below it
	// hold.
	Quota(tenant string) (*work.Quota, bool)
	Usage(tenant string) work.Usage
	Queue(name string) (*work.Queue, bool)
	QueueTreeGPUs(queue string) int
	// Policy is how to decide. Accounts are what users have used up to now, by queue, tenant and user, and Total is what
	// the cluster has.
	Policy() work.Policy
	Now() int64
	Accounts() iter.Seq[*accounts.Account]
	Total() accounts.Amount
	// ClaimOf is what is kept for a job.
	ClaimOf(ident.Job) (*claims.Claim, bool)
	// Mix is what the jobs ask for, those that ended as well, with the number of jobs.
	Mix() iter.Seq2[work.Shape, int]
}

// Options configure a pass.
type Options struct {
	// PerCommand is how many placements one command contains; default 512.
	PerCommand int
	// PerPass is how many placements a pass makes at most; 0: no limit.
	PerPass int
	// Settled reports whether a node has been in session for long enough to run the next attempt of a job whose last one
	// may still be alive; nil: all have. It does not affect other jobs.
	Settled func(node string) bool
	// Prices returns what decides between the places of a job; nil: they are learned from the view. It is called when
	// something is first to be placed.
	Prices func() *place.Prices
	// Quiet omits the reasons why classes are blocked.
	Quiet bool
	// Model predicts durations for the order SHORTEST, and for exchanges; nil: it knows nothing.
	Model *predict.Model
	// Running are the attempts that may be exchanged for waiting jobs; nil: no decision about that is due.
	Running iter.Seq[Running]

	// kept are the lanes, of a Planner.
	kept *keptLanes
}

// Result is the result of a pass.
type Result struct {
	// Commands to propose, in this order; none if nothing changes. The last one has the reasons.
	Commands []work.PlaceJobs
	// Placed and Offered count jobs.
	Placed  int
	Offered int
	// Blocked are the classes whose first job does not fit: until something is released, none of their jobs does.
	Blocked []work.ClassKey
	// Exchange are jobs to preempt for the sake of the policy's order, and who gets their GPUs.
	Exchange []Exchange
	// ReasonsOnly: nothing was placed; the one command only updates reasons, and is not urgent.
	ReasonsOnly bool
	// Settling: a job only waits for nodes to settle. No event reports that: plan again in a second.
	Settling bool
	// More: the pass ended at its limit, not at the end of the queue.
	More bool
}

// class is the waiting jobs with the same needs and limits.
type class struct {
	key    work.ClassKey
	limits limits
	fit    *place.Fit
	// costs is what one of its jobs is charged.
	costs accounts.Usage
	// blocked: no more of it fits in this pass.
	blocked bool
}

// Plan offers the waiting jobs to the free capacity, in the order of the tree. A class of which no job fits is out for this
// pass, because capacity only shrinks and all its jobs need the same. So what waits and fits nowhere costs as much as there
// are classes and nodes, however many users and jobs there are.
func Plan(v View, opts Options) Result {
	return plan(v, opts, func(prices func() *place.Prices) *place.Pool { return place.New(v, shapes(v), prices) })
}

// plan is Plan with the pool of the caller.
func plan(v View, opts Options, poolOf func(prices func() *place.Prices) *place.Pool) Result {
	if opts.Prices == nil {
		opts.Prices = func() *place.Prices { return place.Learn(v.Mix(), v.Nodes()) }
	}
	p := newPass(v, opts, poolOf)
	for l := p.line.first(); l != nil; l = p.line.first() {
		if !p.offer(l) {
			continue
		}
		p.line.placed()
		if p.opts.PerPass > 0 && p.res.Placed >= p.opts.PerPass {
			p.res.More = true
			break
		}
	}
	return p.result()
}

// pass is one run of Plan.
type pass struct {
	view    View
	opts    Options
	ranking *ranking
	line    *tree
	room    *room
	pool    *place.Pool
	blocked []*class
	batch   []work.Placement
	// placed are the jobs that were placed, an element with the row of its array, for exchanges; nil: none are due.
	placed map[ident.Job]*work.Job
	res    Result
}

// newPass looks at each class once, and lets the users of those that fit wait in line.
func newPass(v View, opts Options, poolOf func(prices func() *place.Prices) *place.Pool) *pass {
	if opts.PerCommand <= 0 {
		opts.PerCommand = 512
	}
	p := &pass{view: v, opts: opts, ranking: newRanking(v, opts), room: newRoom(v)}
	p.line = newTree(v, p.ranking)
	if v, ok := v.(lanesView); ok && opts.kept != nil {
		opts.kept.sync(v, p.ranking)
	}
	if opts.Running != nil && p.ranking.policy.Preemption.Enabled {
		p.placed = map[ident.Job]*work.Job{}
	}
	var held []heldJob
	for key := range v.Classes() {
		c := &class{key: key, limits: p.room.limitsOf(key), costs: key.Shape.Amount().Now()}
		if c.limits.bars(key.Shape) != "" {
			p.block(c)
			continue
		}
		if p.pool == nil {
			p.pool = poolOf(opts.Prices)
		}
		c.fit = p.pool.For(key.Shape)
		if key.Own != 0 {
			for job := range lanesJobs(v, key) {
				c.fit.Narrow(job, opts.Settled)
				if k, kept := v.ClaimOf(job.ID); kept && k.IsHold() {
					held = append(held, heldJob{c, job, k})
				}
			}
		}
		if len(held) > 0 && held[len(held)-1].class == c {
			continue
		}
		p.enter(c)
	}
	p.complete(held)
	p.line.ready()
	return p
}

// enter lets the users of a class wait in line, if a job of it fits.
func (p *pass) enter(c *class) {
	if !c.fit.Fits() {
		p.block(c)
		return
	}
	p.openClass(c)
}

// shapes are those of all classes.
func shapes(v View) iter.Seq[work.Shape] {
	return func(yield func(work.Shape) bool) {
		for key := range v.Classes() {
			if !yield(key.Shape) {
				return
			}
		}
	}
}

// lanesJobs iterates the jobs of a class, lane by lane.
func lanesJobs(v View, key work.ClassKey) iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		for lane := range v.Lanes(key) {
			for j := range v.LaneJobs(lane) {
				if !yield(j) {
					return
				}
			}
		}
	}
}

// block ends a class for this pass.
func (p *pass) block(c *class) {
	c.blocked = true
	p.blocked = append(p.blocked, c)
	p.res.Offered++
}

// offer places the first job of a lane, if its class still fits.
func (p *pass) offer(l *lane) bool {
	c := l.class
	if c.limits.bars(c.key.Shape) != "" {
		p.block(c)
		return false
	}
	tasks, ok := c.fit.Place()
	if !ok {
		p.block(c)
		return false
	}
	id, attempt := l.offered()
	p.put(c, l.head, work.Placement{Job: id, Attempt: attempt, Tasks: tasks})
	return true
}

// put notes where a job is placed; row is its own or that of its array.
func (p *pass) put(c *class, row *work.Job, placed work.Placement) {
	p.res.Offered++
	p.res.Placed++
	c.limits.take(c.key.Shape)
	if p.placed != nil {
		p.placed[placed.Job] = row
	}
	p.batch = append(p.batch, placed)
	if len(p.batch) == p.opts.PerCommand {
		p.flush()
	}
}

func (p *pass) flush() {
	if len(p.batch) > 0 {
		p.res.Commands = append(p.res.Commands, work.PlaceJobs{BasedOn: p.view.Index(), Placements: p.batch})
		p.batch = nil
	}
}

// result says why classes are blocked, as things are at the end of the pass.
func (p *pass) result() Result {
	var reasons []work.ClassReason
	for _, c := range p.blocked {
		p.res.Blocked = append(p.res.Blocked, c.key)
		barred := c.limits.bars(c.key.Shape)
		p.res.Settling = p.res.Settling || barred == "" && c.fit.Settling()
		if p.opts.Quiet {
			continue
		}
		why := barred
		if why == "" {
			why = c.fit.Reason()
		}
		if !reason.Same(why, p.view.ClassReason(c.key)) {
			reasons = append(reasons, work.ClassReason{Class: c.key, Reason: why})
		}
	}
	p.flush()
	if p.placed != nil && !p.res.More {
		p.res.Exchange = p.exchange()
	}
	switch res := &p.res; {
	case len(res.Commands) > 0:
		res.Commands[len(res.Commands)-1].Reasons = reasons
	case len(reasons) > 0:
		res.ReasonsOnly = true
		res.Commands = []work.PlaceJobs{{BasedOn: p.view.Index(), Reasons: reasons}}
	}
	return p.res
}
