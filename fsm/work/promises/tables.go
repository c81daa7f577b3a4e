package promises

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

const record = 125

// Ledger has the promises. Its methods read; what changes it is functions, so that a frozen copy that is embedded in a view
// offers none of it.
type Ledger struct {
	rows kernel.Table[ident.Job, *Promise]
}

// NewLedger returns an empty one.
func NewLedger() Ledger {
	return Ledger{rows: kernel.NewTable[ident.Job, *Promise](record, func(a, b ident.Job) bool { return a < b })}
}

// Record is the kind of row; at finds the tables of a state.
func Record(at func(*kernel.State) *Ledger) kernel.RecordDef {
	return kernel.Rows(record, "promise", func(s *kernel.State) *kernel.Table[ident.Job, *Promise] { return &at(s).rows },
		func(s *kernel.State, p *Promise) error {
			for i := range p.Tasks {
				p.Tasks[i].Node = s.Intern(p.Tasks[i].Node)
			}
			Put(at(s), p)
			return nil
		})
}

// Freeze returns a copy for a view.
func Freeze(t *Ledger) Ledger { return Ledger{rows: t.rows.Freeze()} }

// Put puts a row in, in the place of the one for its job.
func Put(t *Ledger, p *Promise) { t.rows.Put(p.Job, p) }

// Drop takes a row out.
func Drop(t *Ledger, p *Promise) { t.rows.Delete(p.Job) }

// PromiseOf returns the promise to a job.
func (t *Ledger) PromiseOf(job ident.Job) (*Promise, bool) { return t.rows.Get(job) }

// Promises iterates all promises, by job.
func (t *Ledger) Promises() iter.Seq[*Promise] { return t.rows.Rows() }

// PromiseCount is how many promises there are.
func (t *Ledger) PromiseCount() int { return t.rows.Len() }
