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
// Not guaranteed. Fairness between tenants and queues, and that a large gang ever gets its nodes while smaller jobs keep
// coming: a class that does not fit is skipped. Future policies would be added here:
//   - fair share decides the order in which classes are offered (order.go),
//   - backfill keeps later jobs from what a blocked gang is waiting for (where blocked is set, in this file),
//   - preemption frees what a blocked job needs (the same place: a blocked class and its reason are its input).
package scheduler

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// View is what planning reads from the state. *fsm.View implements it.
type View interface {
	Index() uint64
	Nodes() iter.Seq[*work.Node]
	Use(node string) work.NodeUse
	// Classes are the groups of waiting jobs; ClassJobs are those of one, highest priority first, then oldest.
	Classes() iter.Seq[work.ClassKey]
	ClassJobs(work.ClassKey) iter.Seq[*work.Job]
	// ClassJobsAfter fills buf with the jobs after a given one.
	ClassJobsAfter(key work.ClassKey, after *work.Job, buf []*work.Job) []*work.Job
	ClassReason(work.ClassKey) reason.Reason
	// Array returns the row of an array.
	Array(ident.Job) (*work.Job, bool)
	// Quota is what a tenant may have, Usage what it has; QueueGPUs is what the jobs of a queue hold.
	Quota(tenant string) (*work.Quota, bool)
	Usage(tenant string) work.Usage
	Queue(name string) (*work.Queue, bool)
	QueueGPUs(queue string) int
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
	// Quiet omits the reasons why classes are blocked.
	Quiet bool
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
	// ReasonsOnly: nothing was placed; the one command only updates reasons, and is not urgent.
	ReasonsOnly bool
	// Settling: a job only waits for nodes to settle. No event reports that: plan again in a second.
	Settling bool
	// More: the pass ended at its limit, not at the end of the queue.
	More bool
}

// Plan offers the waiting jobs to the free capacity: highest priority first, then oldest. The first job of a class that
// does not fit ends the class for this pass (all its jobs need the same), so a pass that changes nothing costs as much as
// there are classes and nodes, however long the queue is.
func Plan(v View, opts Options) Result {
	if opts.PerCommand <= 0 {
		opts.PerCommand = 512
	}
	var (
		res     Result
		reasons []work.ClassReason
		line    = newLine(v)
		pool    *pool
		room    = newRoom(v)
		batch   []work.Placement
	)
	flush := func() {
		if len(batch) > 0 {
			res.Commands = append(res.Commands, work.PlaceJobs{BasedOn: v.Index(), Placements: batch})
			batch = nil
		}
	}
	blocked := func(class *class, why reason.Reason) {
		res.Blocked = append(res.Blocked, class.key)
		if !opts.Quiet && !reason.Same(why, v.ClassReason(class.key)) {
			reasons = append(reasons, work.ClassReason{Class: class.key, Reason: why})
		}
		line.drop()
	}
	for class, job := line.first(); job != nil; class, job = line.first() {
		if !class.limits.known {
			class.limits = room.limitsOf(class.key)
		}
		if why := class.limits.bars(class.key.Shape); why != "" {
			res.Offered++
			blocked(class, why)
			continue
		}
		if pool == nil {
			pool = newPool(v, line.all)
		}
		if class.fit == nil {
			class.fit = pool.fit(class.key.Shape)
			if class.key.Own != 0 {
				class.fit.narrow(job, opts.Settled)
			}
		}
		res.Offered++
		tasks, ok := class.fit.place()
		if !ok {
			res.Settling = res.Settling || class.fit.own != nil && class.fit.own.settling(&class.fit.shape)
			var why reason.Reason
			if !opts.Quiet {
				why = class.fit.reason()
			}
			blocked(class, why)
			continue
		}
		class.limits.take(class.key.Shape)
		id, attempt := class.offered()
		batch = append(batch, work.Placement{Job: id, Attempt: attempt, Tasks: tasks})
		if len(batch) == opts.PerCommand {
			flush()
		}
		if res.Placed++; res.Placed == opts.PerPass {
			res.More = true
			break
		}
		line.next()
	}
	flush()
	switch {
	case len(res.Commands) > 0:
		res.Commands[len(res.Commands)-1].Reasons = reasons
	case len(reasons) > 0:
		res.ReasonsOnly = true
		res.Commands = []work.PlaceJobs{{BasedOn: v.Index(), Reasons: reasons}}
	}
	return res
}
