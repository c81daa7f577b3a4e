package apply

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
)

// holdPlaces keeps what the tasks of an attempt had that failed for no fault of theirs, so that the next one needs new
// places for the others only. The leases of the attempt are gone, and nobody was placed since: it is one entry.
func (tx *tx) holdPlaces(j *work.Job, over *work.Ending) {
	policy := tx.Policy()
	if policy.Hold == 0 || len(tx.Awaiting(j.ID)) > 0 {
		return // Who waits for it to leave gets what it leaves.
	}
	c := claims.Hold(j, over, tx.now, tx.now+policy.Hold, func(t *work.Task) bool {
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
