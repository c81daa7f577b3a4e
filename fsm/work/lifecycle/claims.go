package lifecycle

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
)

// holdPlaces keeps what the tasks of an attempt had that failed for no fault of theirs, so that the next one needs new
// places for the others only. The leases of the attempt are gone, and nobody was placed since: it is one entry.
func (tx *Tx) holdPlaces(j *work.Job, over *work.Ending) {
	policy := tx.Policy()
	if policy.Hold == 0 || len(tx.Awaiting(j.ID)) > 0 {
		return // The job that waits for it to leave gets its places.
	}
	c := claims.Hold(j, over, tx.Now, tx.Now+policy.Hold, func(t *work.Task) bool {
		n, ok := tx.Node(t.Node)
		return ok && work.CheckTask(n, tx.InUse(t.Node), j.Shape, t.GPUs) == nil
	})
	if c != nil {
		tx.PutClaim(c)
	}
}

// within says whether all of some places are among those that a job gets.
func within(kept, placed []work.TaskPlacement) bool {
	for i := range kept {
		if !slices.Contains(placed, kept[i]) {
			return false
		}
	}
	return true
}

// left is called when a job has given back its leases: claims that waited for it alone are granted.
func (tx *Tx) left(victim ident.Job) {
	for _, id := range tx.Awaiting(victim) {
		was, _ := tx.ClaimOf(id)
		c := *was
		c.Victims = slices.DeleteFunc(slices.Clone(was.Victims), func(v ident.Job) bool { return v == victim })
		if len(c.Victims) > 0 {
			tx.PutClaim(&c)
			continue
		}
		// The nodes may have changed meanwhile: if a place is unfit now, the job waits as before.
		if tx.Place(&work.Placement{Job: c.Job, Attempt: c.Attempt, Tasks: c.Tasks}) != nil {
			tx.EndClaim(was)
		}
	}
}

// EndClaim gives up the places that are kept for a job.
func (tx *Tx) EndClaim(c *claims.Claim) {
	tx.DropClaim(c)
	j, _ := tx.Job(c.Job)
	tx.emitUnkept(j, c)
}

// emitUnkept tells that places are free again.
func (tx *Tx) emitUnkept(j *work.Job, c *claims.Claim) {
	nodes := make([]string, len(c.Tasks))
	for i := range c.Tasks {
		nodes[i] = c.Tasks[i].Node
	}
	tx.Emit(event.Event{Topic: event.TopicLease, Tenant: j.Tenant, Job: j.ID, Attempt: j.Attempt, Queue: j.Queue, Nodes: nodes})
}
