package policy

import "github.com/mindcoordinator/mind/fsm/kernel"

const (
	record = 111
	// key is that of the one policy.
	key = 1
)

// Table has the policy. Its methods read; what changes it is a function, so that a frozen copy that is embedded in a view
// offers none of it.
type Table struct {
	rows kernel.Table[uint8, *Policy]
}

// NewTable returns one without a policy.
func NewTable() Table {
	return Table{rows: kernel.NewTable[uint8, *Policy](record, func(a, b uint8) bool { return a < b })}
}

// Record is the kind of row; at finds the table of a state.
func Record(at func(*kernel.State) *Table) kernel.RecordDef {
	return kernel.Rows(record, "policy", func(s *kernel.State) *kernel.Table[uint8, *Policy] { return &at(s).rows },
		func(s *kernel.State, p *Policy) error { Put(at(s), p); return nil })
}

// Freeze returns a copy for a view.
func Freeze(t *Table) Table { return Table{rows: t.rows.Freeze()} }

// Put puts the policy in.
func Put(t *Table, p *Policy) { t.rows.Put(key, p) }

// Policy is how the scheduler decides.
func (t *Table) Policy() Policy {
	if p, ok := t.rows.Get(key); ok {
		return *p
	}
	return DefaultPolicy()
}

// CheckPolicy reports what is wrong with the policy.
func (t *Table) CheckPolicy(report kernel.Report) {
	if p := t.Policy(); p.Validate() != nil {
		report("the policy is not valid: %v", p.Validate())
	}
}
