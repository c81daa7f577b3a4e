package apply

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
)

func preemptJobs(tx *tx, c *claims.PreemptJobs) any {
	var res claims.PreemptResult
	for i := range c.Preemptions {
		p := &c.Preemptions[i]
		if r := tx.preempt(p); r != nil {
			res.Refused = append(res.Refused, claims.Refused{Job: p.Job, Code: r.Code, Reason: r.Reason})
			continue
		}
		res.Claimed = append(res.Claimed, p.Job)
	}
	return res
}

// preempt keeps places for a waiting job, and asks those who hold them to leave.
func (tx *tx) preempt(p *claims.Preemption) *kernel.Refusal {
	old, there := tx.Job(p.Job)
	if !there {
		old = tx.materialize(p.Job)
	}
	switch {
	case old == nil:
		return kernel.Refuse(kernel.CodeNotFound, reason.NoJob, p.Job)
	case !old.Waiting() || old.Array != nil:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.JobIs, p.Job, old.State)
	case p.Attempt != old.Attempt+1:
		return kernel.Refuse(kernel.CodeAborted, reason.PlanOutdated, p.Attempt, p.Job, old.Attempt)
	case len(p.Tasks) != int(old.Shape.Nodes):
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.WrongPlaces, len(p.Tasks), old.Shape.Nodes, p.Job)
	case old.Replacement():
		// Only the leader knows which nodes have been in session for long enough, and a grant does not ask it.
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.MayNotTakeOver, p.Tasks[0].Node, old.Awaits[0].Node, old.Awaits[0].Attempt, p.Job)
	case tx.ClaimCount() >= claims.Max:
		return kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyClaims, claims.Max)
	case len(p.Victims) == 0 || len(p.Victims) > claims.MaxVictims:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NoVictims, p.Job, claims.MaxVictims)
	}
	if _, there := tx.ClaimOf(p.Job); there {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.ClaimThere, p.Job)
	}
	if node := twice(p.Tasks); node != "" {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NodeTwice, node, p.Job)
	}
	victims := make([]ident.Job, 0, len(p.Victims))
	for _, v := range p.Victims {
		if r := tx.mayPreempt(old, v, p.Reclaim); r != nil {
			return r
		}
		victims = append(victims, v.Job)
	}
	slices.Sort(victims)
	victims = slices.Compact(victims)
	for i := range p.Tasks {
		if r := tx.kept(old, p.Tasks[i].Node); r != nil {
			return r
		}
		if r := tx.wouldFit(old, &p.Tasks[i], victims); r != nil {
			return r
		}
	}
	if r := tx.splitsDomains(&old.Shape, p.Tasks); r != nil {
		return r
	}
	for i, v := range victims {
		if !tx.needed(old, p.Tasks, v, slices.Delete(slices.Clone(victims), i, i+1)) {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.VictimNotNeeded, v, p.Job)
		}
	}
	why := tx.overQuotaWithout(old, p.Tasks, victims)
	if why == "" {
		why = tx.overParallel(old)
	}
	if why != "" {
		return &kernel.Refusal{Code: kernel.CodeResourceExhausted, Reason: reason.New(reason.JobBarred, p.Job, why), Quota: true}
	}
	if r := tx.mayTake(old, p, victims); r != nil {
		return r
	}
	if !there {
		tx.saveJob(nil, old) // A claim is for a row.
	}
	tx.claim(old, p, victims)
	return nil
}

// mayPreempt says why a running job is not preempted by a waiting one; nil: it may be.
func (tx *tx) mayPreempt(j *work.Job, v claims.Victim, reclaim bool) *kernel.Refusal {
	at, ok := tx.Job(v.Job)
	policy := tx.Policy()
	switch {
	case !ok:
		return kernel.Refuse(kernel.CodeNotFound, reason.NoJob, v.Job)
	case !at.Live() || at.Attempt != v.Attempt || at.Stop != v1.StopReason_UNSPECIFIED || at.Ending != nil:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.VictimNotRunning, v.Job, v.Attempt)
	case !at.Preemptible || at.Retry.Never:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.VictimNotPreemptible, v.Job)
	case reclaim:
		return nil // Who has borrowed gives back, whatever its priority: mayTake says who has.
	case at.Priority > j.Priority || at.Priority == j.Priority && !policy.Preemption.Enabled:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.VictimNotBelow, v.Job, at.Priority, j.Priority)
	}
	if left := at.ProtectedUntil(&policy) - tx.now; left > 0 {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.VictimProtected, v.Job, left)
	}
	return nil
}

// wouldFit says why a task would not fit if some jobs were gone; nil: it would.
func (tx *tx) wouldFit(j *work.Job, t *work.TaskPlacement, gone []ident.Job) *kernel.Refusal {
	n, ok := tx.Node(t.Node)
	if !ok {
		return kernel.Refuse(kernel.CodeNotFound, reason.NoNode, t.Node)
	}
	use := *tx.InUse(n.ID)
	for l := range tx.LeasesOn(n.ID) {
		if _, leaves := slices.BinarySearch(gone, l.Job); leaves {
			use.Remove(l)
		}
	}
	return work.CheckTask(n, &use, j.Shape, t.GPUs)
}

// needed says whether some place would not be free if a victim stayed, even when the others leave.
func (tx *tx) needed(j *work.Job, places []work.TaskPlacement, victim ident.Job, others []ident.Job) bool {
	at, _ := tx.Job(victim)
	for i := range places {
		on := slices.ContainsFunc(at.Tasks, func(t work.Task) bool { return t.Node == places[i].Node })
		if on && tx.wouldFit(j, &places[i], others) != nil {
			return true
		}
	}
	return false
}

// claim keeps places for a job, and asks its victims to stop.
func (tx *tx) claim(old *work.Job, p *claims.Preemption, victims []ident.Job) {
	why := reason.New(reason.PreemptedFor, old.Priority)
	if p.Reclaim {
		why = reason.New(reason.ReclaimedFor, tx.guaranteeOf(old))
	}
	longest := int64(0)
	for _, v := range victims {
		at, _ := tx.Job(v)
		longest = max(longest, at.Grace)
		j := *at
		tx.askToStop(&j, v1.StopReason_PREEMPT, j.Grace, why)
		tx.saveJob(at, &j)
	}
	c := &claims.Claim{
		Job: old.ID, Attempt: old.Attempt + 1, Tasks: slices.Clone(p.Tasks), Victims: victims,
		CPUs: old.Shape.CPUDemand(), MemMB: old.Shape.MemMB, Since: tx.now, Until: tx.now + 2*longest + claims.Slack,
	}
	for i := range c.Tasks {
		c.Tasks[i].Node = tx.entry.Intern(c.Tasks[i].Node)
	}
	tx.PutClaim(c)
	if p, promised := tx.PromiseOf(old.ID); promised {
		tx.endPromise(p)
	}
}

// left is called when a job has given back its leases: claims that waited for it alone are granted.
func (tx *tx) left(victim ident.Job) {
	for _, id := range tx.Awaiting(victim) {
		was, _ := tx.ClaimOf(id)
		c := *was
		c.Victims = slices.DeleteFunc(slices.Clone(was.Victims), func(v ident.Job) bool { return v == victim })
		if len(c.Victims) > 0 {
			tx.PutClaim(&c)
			continue
		}
		// What became of the nodes meanwhile decides: if a place is unfit now, the job waits as before.
		if tx.place(&work.Placement{Job: c.Job, Attempt: c.Attempt, Tasks: c.Tasks}) != nil {
			tx.endClaim(was)
		}
	}
}

// endClaim gives up the places that are kept for a job.
func (tx *tx) endClaim(c *claims.Claim) {
	tx.DropClaim(c)
	j, _ := tx.Job(c.Job)
	tx.emitUnkept(j, c)
}

// emitUnkept tells that places are free again.
func (tx *tx) emitUnkept(j *work.Job, c *claims.Claim) {
	nodes := make([]string, len(c.Tasks))
	for i := range c.Tasks {
		nodes[i] = c.Tasks[i].Node
	}
	tx.emit(event.Event{Topic: event.TopicLease, Tenant: j.Tenant, Job: j.ID, Attempt: j.Attempt, Queue: j.Queue, Nodes: nodes})
}

// endClaims gives up the places that were kept for too long.
func (tx *tx) endClaims() {
	for {
		c := tx.Ended(tx.now)
		if c == nil {
			return
		}
		tx.endClaim(c)
	}
}

// committed is called when a job has registered a checkpoint: one that makes room has saved what it needs, so its notice is
// over soon.
func (tx *tx) committed(j *work.Job) {
	if j.Stop == v1.StopReason_PREEMPT && j.StopGrace > claims.ClosingGrace && len(tx.Awaiting(j.ID)) > 0 {
		j.StopGrace = claims.ClosingGrace
		tx.emitJob(j, j.State)
	}
}
