package jobverbs

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/guarantee"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/policy"
)

// PreemptJobs asks running jobs to make room for waiting ones, each preemption for itself.
type PreemptJobs struct {
	Preemptions []Preemption `cbor:"1,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (PreemptJobs) CommandNumber() uint16 { return 42 }

func init() { verbs.Add(lifecycle.Verb("PreemptJobs", preemptJobs, nil)) }

// Preemption makes room for the next attempt of one job.
type Preemption struct {
	Job     ident.Job `cbor:"1,keyasint,omitempty"`
	Attempt uint32    `cbor:"2,keyasint,omitempty"`
	// Tasks are the places that the job gets, by rank.
	Tasks   []work.TaskPlacement `cbor:"3,keyasint,omitempty"`
	Victims []Victim             `cbor:"4,keyasint,omitempty"`
	// Reclaim: the job is within what a queue is guaranteed, and its victims have borrowed from it. Their priorities do not
	// matter, and nothing protects them.
	Reclaim bool `cbor:"5,keyasint,omitempty"`
}

// Victim is a running attempt that is asked to stop.
type Victim struct {
	Job     ident.Job `cbor:"1,keyasint,omitempty"`
	Attempt uint32    `cbor:"2,keyasint,omitempty"`
}

// PreemptResult has the outcome of each preemption.
type PreemptResult struct {
	// Claimed are the jobs that have a claim now.
	Claimed []ident.Job
	Refused []Refused
}

// balance has the GPUs that the queues hold, as guarantees count them: GPUs that are kept for a job count as held by it, and those of jobs
// that leave for one do not.
func balance(tx *lifecycle.Tx) *guarantee.Balance {
	return guarantee.New(tx.State, tx.GPUsIn, tx.Claims(), tx.Job)
}

// mayTake says why a preemption would take what another queue is guaranteed, or reclaims more than its own; nil: neither.
func mayTake(tx *lifecycle.Tx, j *work.Job, p *Preemption, victims []ident.Job) *kernel.Refusal {
	b := balance(tx)
	if p.Reclaim && len(b.Covering(j)) == 0 {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NotGuaranteed, j.ID)
	}
	var leave []*work.Job
	for _, id := range victims {
		at, _ := tx.Job(id)
		leave = append(leave, at)
	}
	if at, queue := b.Protects(j, leave, p.Reclaim); at != nil {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.VictimGuaranteed, at.ID, queue)
	}
	return nil
}

// guaranteeOf is the queue whose guarantee a job is within.
func guaranteeOf(tx *lifecycle.Tx, j *work.Job) string {
	for _, q := range balance(tx).Covering(j) {
		return q
	}
	return j.Queue
}

func preemptJobs(tx *lifecycle.Tx, c *PreemptJobs) PreemptResult {
	var res PreemptResult
	for i := range c.Preemptions {
		p := &c.Preemptions[i]
		if r := preempt(tx, p); r != nil {
			res.Refused = append(res.Refused, Refused{Job: p.Job, Code: r.Code, Reason: r.Reason})
			continue
		}
		res.Claimed = append(res.Claimed, p.Job)
	}
	return res
}

// preempt keeps places for a waiting job, and asks those who hold them to leave.
func preempt(tx *lifecycle.Tx, p *Preemption) *kernel.Refusal {
	old, there := tx.Job(p.Job)
	if !there {
		old = tx.Materialize(p.Job)
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
	if node := lifecycle.Twice(p.Tasks); node != "" {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NodeTwice, node, p.Job)
	}
	victims := make([]ident.Job, 0, len(p.Victims))
	for _, v := range p.Victims {
		if r := mayPreempt(tx, old, v, p.Reclaim); r != nil {
			return r
		}
		victims = append(victims, v.Job)
	}
	slices.Sort(victims)
	victims = slices.Compact(victims)
	for i := range p.Tasks {
		if r := tx.Kept(old, p.Tasks[i].Node); r != nil {
			return r
		}
		if r := wouldFit(tx, old, &p.Tasks[i], victims); r != nil {
			return r
		}
	}
	if r := tx.SplitsDomains(&old.Shape, p.Tasks); r != nil {
		return r
	}
	for i, v := range victims {
		if !needed(tx, old, p.Tasks, v, slices.Delete(slices.Clone(victims), i, i+1)) {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.VictimNotNeeded, v, p.Job)
		}
	}
	why := tx.OverQuotaWithout(old, p.Tasks, victims)
	if why == "" {
		why = tx.OverParallel(old)
	}
	if why != "" {
		return &kernel.Refusal{Code: kernel.CodeResourceExhausted, Reason: reason.New(reason.JobBarred, p.Job, why), Quota: true}
	}
	if r := mayTake(tx, old, p, victims); r != nil {
		return r
	}
	if !there {
		tx.SaveJob(nil, old) // A claim is for a row.
	}
	claim(tx, old, p, victims)
	return nil
}

// mayPreempt says why a running job is not preempted by a waiting one; nil: it may be.
func mayPreempt(tx *lifecycle.Tx, j *work.Job, v Victim, reclaim bool) *kernel.Refusal {
	at, ok := tx.Job(v.Job)
	rules := tx.Policy().Preemption
	switch {
	case !ok:
		return kernel.Refuse(kernel.CodeNotFound, reason.NoJob, v.Job)
	case !at.Live() || at.Attempt != v.Attempt || at.Stop != v1.StopReason_UNSPECIFIED || at.Ending != nil:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.VictimNotRunning, v.Job, v.Attempt)
	case !at.Preemptible || at.Retry.Never:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.VictimNotPreemptible, v.Job)
	case reclaim:
		return nil // A borrower gives back, whatever its priority: mayTake says who has.
	case at.Priority > j.Priority || at.Priority == j.Priority && !rules.Enabled:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.VictimNotBelow, v.Job, at.Priority, j.Priority)
	}
	protect := rules.Protects(at.Priority < j.Priority && tx.Entry.Open(policy.Gate))
	if left := at.ProtectedUntil(protect) - tx.Now; left > 0 {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.VictimProtected, v.Job, left)
	}
	return nil
}

// wouldFit says why a task would not fit if some jobs were gone; nil: it would.
func wouldFit(tx *lifecycle.Tx, j *work.Job, t *work.TaskPlacement, gone []ident.Job) *kernel.Refusal {
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
func needed(tx *lifecycle.Tx, j *work.Job, places []work.TaskPlacement, victim ident.Job, others []ident.Job) bool {
	at, _ := tx.Job(victim)
	for i := range places {
		on := slices.ContainsFunc(at.Tasks, func(t work.Task) bool { return t.Node == places[i].Node })
		if on && wouldFit(tx, j, &places[i], others) != nil {
			return true
		}
	}
	return false
}

// claim keeps places for a job, and asks its victims to stop.
func claim(tx *lifecycle.Tx, old *work.Job, p *Preemption, victims []ident.Job) {
	why := reason.New(reason.PreemptedFor, old.Priority)
	if p.Reclaim {
		why = reason.New(reason.ReclaimedFor, guaranteeOf(tx, old))
	}
	longest := int64(0)
	for _, v := range victims {
		at, _ := tx.Job(v)
		longest = max(longest, at.Grace)
		j := *at
		tx.AskToStop(&j, v1.StopReason_PREEMPT, j.Grace, why)
		tx.SaveJob(at, &j)
	}
	c := &claims.Claim{
		Job: old.ID, Attempt: old.Attempt + 1, Tasks: slices.Clone(p.Tasks), Victims: victims,
		CPUs: old.Shape.CPUDemand(), MemMB: old.Shape.MemMB, Since: tx.Now, Until: tx.Now + 2*longest + claims.Slack,
	}
	for i := range c.Tasks {
		c.Tasks[i].Node = tx.Entry.Intern(c.Tasks[i].Node)
	}
	tx.PutClaim(c)
	if p, promised := tx.PromiseOf(old.ID); promised {
		tx.EndPromise(p)
	}
}
