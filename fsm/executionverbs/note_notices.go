package executionverbs

import (
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// NoteNotices notes which notices of decisions and jobs were told, and which could not be.
type NoteNotices struct {
	Notes []Note `cbor:"1,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (NoteNotices) CommandNumber() uint16 { return 70 }

// AtLevel implements kernel.Leveled.
func (c NoteNotices) AtLevel(at level.Level) (kernel.Command, error) { return c, cores.Gate.Check(at) }

func init() { verbs.Add(lifecycle.Verb("NoteNotices", noteNotices, nil)) }

// Note is the outcome of a try to send a notice.
type Note struct {
	Decision ident.Decision `cbor:"1,keyasint,omitempty"`
	Number   uint32         `cbor:"2,keyasint,omitempty"`
	// Over: it is not sent again. It was told, or given up if there is an Err.
	Over bool `cbor:"3,keyasint,omitempty"`
	// Err says why a try failed.
	Err string `cbor:"4,keyasint,omitempty"`
	// Job: the notice is one of a job, not of a decision.
	Job ident.Job `cbor:"5,keyasint,omitempty"`
}

// NotesResult counts the notes that changed something. The others were about notices that are not there any more.
type NotesResult struct{ Noted int }

func noteNotices(tx *lifecycle.Tx, c *NoteNotices) (res NotesResult) {
	for i := range c.Notes {
		n := &c.Notes[i]
		if n.Job != 0 {
			if noteOfJob(tx, n) {
				res.Noted++
			}
			continue
		}
		old, ok := bookOf(tx).Decision(n.Decision)
		if !ok {
			continue
		}
		d := *old
		there, taken := d.Told(n.Number), n.Over && n.Err == ""
		if !there && !(taken && d.MayReplace(n.Number)) {
			continue
		}
		if !n.Over {
			d.Untold = old.Untold
		}
		if taken {
			d.NotifiedAt = tx.Now
		}
		d.NotifyError = clip(n.Err)
		executions.SaveDecision(tx.Entry, &d)
		res.Noted++
	}
	return res
}

// noteOfJob notes the outcome for a job; false: the notice is not there any more.
func noteOfJob(tx *lifecycle.Tx, n *Note) bool {
	old, ok := tx.Job(n.Job)
	if !ok || old.Notices == nil {
		return false
	}
	told := old.Notices.Told(n.Number, n.Over, clip(n.Err), tx.Now)
	if told == old.Notices {
		return false
	}
	tx.Tell(old, told)
	return true
}
