package executions

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// A gate is a place in the program of a job where people decide whether it goes on. The job gives its GPUs back while it waits.

// ofJob lists a decision under the job that asks.
type ofJob struct {
	job ident.Job
	id  ident.Decision
}

func (a ofJob) less(b ofJob) bool { return a.job < b.job || a.job == b.job && a.id < b.id }

// GatesOf iterates the decisions about a job, the oldest first.
func (t *Book) GatesOf(job ident.Job) iter.Seq[*Decision] {
	return func(yield func(*Decision) bool) {
		t.gates.AscendFrom(ofJob{job: job}, func(o ofJob) bool {
			if o.job != job {
				return false
			}
			d, _ := t.decisions.Get(o.id)
			return yield(d)
		})
	}
}

// ClosedGate returns the decision that a job waits for; nil: it waits for none.
func (t *Book) ClosedGate(job ident.Job) *Decision {
	if t.gates.Len() == 0 {
		return nil
	}
	for d := range t.GatesOf(job) {
		if d.Status == Pending {
			return d
		}
	}
	return nil
}

// Passed says whether the job of a gate may go on from there.
func (d *Decision) Passed() bool {
	switch d.Status {
	case Resolved:
		for _, o := range d.Options {
			if o.ID == d.Resolution {
				return !o.Cancels
			}
		}
		return true
	case Expired:
		return d.OnExpiry == ExpireContinue
	}
	return false
}

// gateMoved keeps the decisions about a job in step with it: a job that is over waits for none, and one that waits for its next
// attempt is owed none.
func gateMoved(tx *kernel.Tx, job ident.Job, queued, over bool) {
	t := Of(tx.State)
	if t.gates.Len() == 0 || !queued && !over {
		return
	}
	var changed []*Decision
	for d := range t.GatesOf(job) {
		if over && d.Status == Pending || d.Owed {
			changed = append(changed, d)
		}
	}
	for _, old := range changed {
		d := *old
		d.Owed = false
		if d.Status == Pending {
			d.Status = DecisionCanceled
		}
		SaveDecision(tx, &d)
	}
}

// DropGates removes the decisions about a job that is forgotten.
func DropGates(t *Book, job ident.Job) {
	if t.gates.Len() == 0 {
		return
	}
	var all []*Decision
	for d := range t.GatesOf(job) {
		all = append(all, d)
	}
	for _, d := range all {
		RemoveDecision(t, d)
	}
}
