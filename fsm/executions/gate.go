package executions

import (
	"iter"
	"slices"

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
		return d.OnExpiry == ExpireContinue && !d.Split
	}
	return false
}

// Shrink leaves of a decision that is over what its job needs, and what people want to know later: a job asks again and again.
func Shrink(tx *kernel.Tx, old *Decision) {
	if old.Context == nil && len(old.Votes) == 0 {
		return
	}
	d := *old
	d.Context = nil
	d.Options, d.Votes = slices.Clone(old.Options), slices.Clone(old.Votes)
	for i := range d.Options {
		d.Options[i].Label = ""
	}
	for i := range d.Votes {
		d.Votes[i].Data = nil
	}
	SaveDecision(tx, &d)
}

// EndGates takes back the question at a gate of a job that is to end, and what it is owed.
func EndGates(tx *kernel.Tx, job ident.Job) { settleGates(tx, job, true) }

// settleGates clears what a job is owed, which waits for its next attempt or is to end; and takes back its question if ends.
func settleGates(tx *kernel.Tx, job ident.Job, ends bool) {
	t := Of(tx.State)
	if t == nil || t.gates.Len() == 0 {
		return
	}
	var changed []*Decision
	for d := range t.GatesOf(job) {
		if ends && d.Status == Pending || d.Owed {
			changed = append(changed, d)
		}
	}
	for _, old := range changed {
		d := *old
		d.Owed = false
		if ends && d.Status == Pending {
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
