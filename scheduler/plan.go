// Package scheduler decides which waiting jobs get which GPUs, from a view of the state and the time.
//
// Contract. [Plan] is a pure function: it reads the view, changes nothing and keeps nothing. Its result is only a
// proposal; the state checks each placement again when it applies the plan, and refuses those that no longer fit.
//
// Guarantees. Within one plan no GPU, CPU or memory is given twice, no job appears twice, a gang has all its tasks or is
// absent, and no quota and no limit of a queue is exceeded. A plan that is applied to the state it was made from is never
// refused. A job whose last attempt may still be alive is placed only on nodes that may run a replacement, and that
// Options.Settled trusts.
//
// Fairness. Among jobs of the same priority, the queue with the smallest share comes first, in this queue the tenant
// with the smallest share, and then the user with the smallest share (package order).
//
// Backfill. A class that does not fit is skipped, so smaller jobs may pass larger ones. Package reserve reserves starts for
// blocked jobs, and a plan delays no reserved start (backfill.go): so a large gang gets its nodes while smaller jobs
// keep coming.
//
// Places that a preemption keeps for a job are not free for others: see package preempt.
//
// A gang with a claim gets its missing places before all other jobs (claimed.go), because the claimed GPUs are idle
// until it starts.
package scheduler

import (
	"iter"
	"math"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/place"
	"github.com/mindcoordinator/mind/scheduler/predict"
	"github.com/mindcoordinator/mind/scheduler/preempt"
	"github.com/mindcoordinator/mind/scheduler/quota"
	"github.com/mindcoordinator/mind/scheduler/worth"
)

// View is the part of the state that a plan reads. *fsm.View implements it.
type View interface {
	quota.View
	order.View
	Index() uint64
	Nodes() iter.Seq[*work.Node]
	Use(node string) work.NodeUse
	// Classes are the groups of waiting jobs with equal needs. LaneJobs are the jobs of a lane, the highest priority
	// first, then the oldest.
	Classes() iter.Seq[work.ClassKey]
	LaneJobs(lane work.LaneKey) iter.Seq[*work.Job]
	ClassReason(work.ClassKey) reason.Reason
	// ClaimOf returns the places that are kept for a job.
	ClaimOf(ident.Job) (*claims.Claim, bool)
	// Mix counts jobs by shape, those that have ended included.
	Mix() iter.Seq2[work.Shape, int]
	// Windows are the maintenances and reservations of nodes.
	Windows() iter.Seq[*windows.Window]
	// Promises are the reserved starts of waiting jobs. The methods below are called for their jobs and nodes.
	Promises() iter.Seq[*promises.Promise]
	Job(ident.Job) (*work.Job, bool)
	ClassOf(*work.Job) work.ClassKey
	LeasesOn(node string) iter.Seq[*work.Lease]
}

// Options configure a pass.
type Options struct {
	// PerCommand is how many placements one command contains; default 512.
	PerCommand int
	// PerPass is how many placements a pass makes at most; 0: no limit.
	PerPass int
	// Settled reports whether a node has been in session for long enough to run the next attempt of a job whose last
	// attempt may still be alive; nil: every node has. It does not affect other jobs.
	Settled func(node string) bool
	// Prices returns the prices by which a job's place is chosen; nil: they are learned from the view. It is called
	// before the first placement.
	Prices func() *worth.Prices
	// Quiet omits the reasons why classes are blocked.
	Quiet bool
	// Model predicts durations for the order SHORTEST and for preemption by order; nil: a model without data.
	Model *predict.Model
	// Running are the attempts that may be preempted for the policy's order; nil: the pass decides nothing about that.
	Running iter.Seq[preempt.Running]
	// Backfill tries jobs, one by one, on places that are kept for reserved starts, if their class fits nowhere else.
	// Without it such a class is blocked as a whole, which takes less time.
	Backfill bool
	// Now is the time in Unix nanoseconds. It counts if it is later than the time of the view.
	Now int64

	// classes are those that a Planner keeps from pass to pass.
	classes *classes
}

// Result is the result of a pass.
type Result struct {
	// Commands are to be proposed in this order; there are none if nothing changes. The last one has the reasons.
	Commands []jobverbs.PlaceJobs
	// Placed counts the jobs that the pass placed, Offered those for which it looked for places.
	Placed  int
	Offered int
	// Blocked are the classes whose first job does not fit: until something is released, none of their jobs does.
	Blocked Blocked
	// OrderPreemptions are the jobs to preempt for the policy's order, and the jobs that get their GPUs.
	OrderPreemptions []preempt.Decision
	// ReasonsOnly: nothing was placed; the one command only updates reasons, and is not urgent.
	ReasonsOnly bool
	// Settling: a job waits only for nodes to settle. No event reports that they have, so the caller plans again in a
	// second.
	Settling bool
	// More: the pass ended at its limit, not at the end of the queue.
	More bool
}

// Plan places waiting jobs on free capacity, in the order of the tree. A class whose job fits nowhere is blocked for
// the rest of the pass, because capacity only shrinks and all its jobs need the same. So the cost of jobs that fit
// nowhere grows with the number of classes and nodes, and not with the number of users and jobs.
func Plan(v View, opts Options) Result {
	opts.classes = &classes{}
	return plan(v, opts, func(shapes iter.Seq[work.Shape], prices func() *worth.Prices) *place.Pool {
		return place.New(v, shapes, prices)
	})
}

// poolOf makes the pool of a pass for jobs of the given shapes.
type poolOf func(shapes iter.Seq[work.Shape], prices func() *worth.Prices) *place.Pool

// plan is Plan with a pool that the caller provides.
func plan(v View, opts Options, pool poolOf) Result {
	if opts.Prices == nil {
		opts.Prices = func() *worth.Prices { return worth.Learn(v.Mix(), v.Nodes()) }
	}
	p := newPass(v, opts, pool)
	for l := p.line.First(); l != nil; l = p.line.First() {
		if p.backfill != nil {
			p.backfill.due(l.Rank.Above)
			if p.backfill.has(l.Head.ID) {
				p.line.Skip()
				continue
			}
		}
		if !p.offer(l) {
			if p.full() {
				break
			}
			continue
		}
		p.line.Placed()
		if p.opts.PerPass > 0 && p.res.Placed >= p.opts.PerPass {
			p.res.More = true
			break
		}
	}
	if !p.res.More {
		p.closeAll()
	}
	if p.backfill != nil && !p.res.More {
		p.backfill.due(math.MaxInt)
	}
	return p.result()
}

// pass is one run of Plan.
type pass struct {
	view    View
	opts    Options
	ranking *order.Ranking
	classes *classes
	line    *order.Tree
	pool    *place.Pool
	// backfill is nil if no start is reserved.
	backfill *backfill
	batch    []work.Placement
	// placed are the jobs that the pass placed, for preemption by order; an element has the row of its array. It is nil
	// if no decision about preemption is due.
	placed   map[ident.Job]*work.Job
	searches *searches
	// opened are the classes with lanes in the line, by number. sweepIn is the number of lanes to try in vain before all
	// searches are tried again.
	opened          []*class
	sweepIn, sweeps int
	// hopeful counts the searches that do not fit, but for places that are kept for reserved starts.
	hopeful int
	res     Result
}

// newPass finds the searches that fit, and adds the lanes of their classes to the line.
func newPass(v View, opts Options, pool poolOf) *pass {
	if opts.PerCommand <= 0 {
		opts.PerCommand = 512
	}
	p := &pass{view: v, opts: opts, ranking: order.NewRanking(v, opts.Model), classes: opts.classes}
	p.line, p.searches = order.NewTree(v, p.ranking), &p.classes.searches
	p.classes.sync(v, p.ranking)
	if opts.Running != nil && p.ranking.Policy.Preemption.Enabled {
		p.placed = map[ident.Job]*work.Job{}
	}
	p.backfill = newBackfill(p)
	if len(p.classes.all) == 0 && p.backfill == nil {
		return p
	}
	p.pool = pool(p.classes.shape(), opts.Prices)
	p.searches.begin(p, p.pool)
	p.classes.place()
	alone, claimed := p.alone()
	fitting := p.searches.fitting()
	alone = append(alone, p.complete(claimed)...)
	if p.backfill != nil {
		p.backfill.keep()
	}
	for _, s := range fitting {
		if p.mayOpen(s) {
			s.opened = true
			for _, c := range s.classes {
				p.classes.touch(c)
				c.search = s
				p.open(c)
			}
		}
	}
	for _, c := range alone {
		if p.mayOpen(c.search) {
			p.open(c)
		} else {
			p.block(c)
		}
	}
	p.line.Ready()
	return p
}

// alone looks at the classes of one job. It returns those that fit, and those with a claim.
func (p *pass) alone() (fitting []*class, claimed []claimedJob) {
	for _, c := range p.classes.own {
		p.classes.touch(c)
		p.classes.doubt(c)
		if c.limits.Bars(c.Key.Shape) != "" {
			p.block(c)
			continue
		}
		s := p.searches.looked(p.searches.of(c))
		if j := p.claimOf(c.Key); j != nil {
			j.class = c
			claimed = append(claimed, *j)
		} else if s.fits {
			fitting = append(fitting, c)
		} else {
			p.block(c)
		}
	}
	return fitting, claimed
}

// mayOpen reports whether jobs of a search that fits may find places, those that are kept for reserved starts left out
// unless the pass is to look at them, too.
func (p *pass) mayOpen(s *search) bool {
	if p.backfill != nil && s.listed != p.searches.number && !s.tight && !p.searches.fitOf(s).Fits() {
		p.searches.tighten(s)
	}
	if !s.tight {
		p.searches.enlist(s)
		return true
	}
	before := p.hopeful
	p.hope(s)
	return p.hopeful > before
}

// open adds the lanes of a class to the line, unless it has no hope.
func (p *pass) open(c *class) {
	if c.search.tight && p.backfill.hopeless(c) {
		p.block(c)
		return
	}
	c.Number = len(p.opened)
	p.opened = append(p.opened, c)
	if kept := &p.classes.lanes; kept.Ready() {
		p.line.OpenKept(&c.Class, kept)
	} else {
		p.line.Open(&c.Class)
	}
}

// full reports whether no search fits any more, so that the rest of the line need not be tried.
func (p *pass) full() bool {
	if p.sweepIn--; p.sweepIn <= 0 {
		p.searches.sweep(p.hope)
		p.sweeps++
		p.sweepIn = len(p.searches.list) << min(p.sweeps, 30) // A long pass does not try them all again and again.
	}
	return len(p.searches.list) == 0 && p.hopeful == 0
}

// hope counts a search that fits no more, if jobs of it may still find places that are kept for reserved starts.
func (p *pass) hope(s *search) {
	if p.backfill != nil && p.opts.Backfill && !p.backfill.hopelessAll(s) {
		p.hopeful++
	}
}

// closeAll blocks the classes that still have jobs in the line, and those of which a job was tried in vain.
func (p *pass) closeAll() {
	for _, c := range p.opened {
		if !c.Blocked && (c.Lanes > 0 || c.tried > c.backfilled) {
			p.block(c)
		}
	}
}

// classOf returns a class for a waiting job that is not in the line.
func (p *pass) classOf(j *work.Job) *class {
	key := p.view.ClassOf(j)
	return &class{Class: order.NewClass(&key), limits: p.classes.room.Of(&key)}
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

// block excludes a class that takes part in the pass from the rest of it.
func (p *pass) block(c *class) {
	if c.Blocked = true; c.at != nil {
		c.at.closed++
	}
}

// offer places the first job of a lane if its class still fits, and reports whether it did.
func (p *pass) offer(l *order.Lane) bool {
	c := p.opened[l.Class.Number]
	p.res.Offered++
	if c.limits.Bars(c.Key.Shape) != "" {
		p.block(c)
		return false
	}
	if c.limits.Typed() {
		p.searches.enlist(p.searches.looked(p.searches.of(c)))
	}
	tasks, placed := p.searches.place(c.search)
	if !placed && p.backfill != nil && p.opts.Backfill && c.tried < mostBackfilled && (c.tried > 0 || !p.backfill.hopeless(c)) {
		c.tried++
		if tasks, placed = p.backfill.place(c, l.Head, l.Rank.Above); !placed {
			p.line.Skip()
			return false
		}
		c.backfilled++
	}
	if !placed {
		p.block(c)
		return false
	}
	id, attempt := l.Offered()
	p.grant(c, l.Head, work.Placement{Job: id, Attempt: attempt, Tasks: tasks})
	return true
}

// grant records the placement of a job, or of an element of an array.
func (p *pass) grant(c *class, row *work.Job, made work.Placement) {
	p.res.Placed++
	c.limits.Take(c.Key.Shape, made.Tasks)
	if p.backfill != nil {
		p.backfill.granted(made.Job)
	}
	if p.placed != nil {
		p.placed[made.Job] = row
	}
	p.batch = append(p.batch, made)
	if len(p.batch) == p.opts.PerCommand {
		p.flush()
	}
}

func (p *pass) flush() {
	if len(p.batch) > 0 {
		p.res.Commands = append(p.res.Commands, jobverbs.PlaceJobs{BasedOn: p.view.Index(), Placements: p.batch})
		p.batch = nil
	}
}
