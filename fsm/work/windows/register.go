package windows

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/kernel"
)

const record = 128

// Register has the windows. Its methods read; what changes it is functions, so that a frozen copy that is embedded in a view
// offers none of it.
type Register struct {
	rows kernel.Table[string, *Window]
	// turns are when windows begin or end, on the windows of each node, of the windows of each tenant.
	turns kernel.Index[turn]
	on    kernel.Index[listed]
	of    kernel.Index[listed]
}

type turn struct {
	at   int64
	name string
}

// listed is a window under the id of one of its nodes, or its tenant.
type listed struct{ under, name string }

func before(a, b listed) bool { return a.under < b.under || a.under == b.under && a.name < b.name }

// NewRegister returns an empty one.
func NewRegister() Register {
	return Register{
		rows:  kernel.NewTable[string, *Window](record, func(a, b string) bool { return a < b }),
		turns: kernel.NewIndex(func(a, b turn) bool { return a.at < b.at || a.at == b.at && a.name < b.name }),
		on:    kernel.NewIndex(before), of: kernel.NewIndex(before),
	}
}

// Record is the kind of row; at finds the register of a state, put puts a loaded row in. Windows come before jobs: they decide
// what class a job is of.
func Record(at func(*kernel.State) *Register, put func(*kernel.State, *Window)) kernel.RecordDef {
	def := kernel.Rows(record, "window", func(s *kernel.State) *kernel.Table[string, *Window] { return &at(s).rows },
		func(s *kernel.State, w *Window) error { put(s, w); return nil })
	def.Order = 4
	return def
}

// Freeze returns a copy for a view.
func Freeze(r *Register) Register {
	return Register{rows: r.rows.Freeze(), turns: r.turns.Freeze(), on: r.on.Freeze(), of: r.of.Freeze()}
}

// Add puts a row in, in the place of the one of its name.
func Add(r *Register, w *Window) {
	if old, ok := r.rows.Get(w.Name); ok {
		underive(r, old)
	}
	r.rows.Put(w.Name, w)
	r.turns.Put(turn{w.Turn(), w.Name})
	for _, n := range w.Nodes {
		r.on.Put(listed{n, w.Name})
	}
	if w.Tenant != "" {
		r.of.Put(listed{w.Tenant, w.Name})
	}
}

// Remove takes a row out.
func Remove(r *Register, w *Window) {
	r.rows.Delete(w.Name)
	underive(r, w)
}

func underive(r *Register, w *Window) {
	r.turns.Delete(turn{w.Turn(), w.Name})
	for _, n := range w.Nodes {
		r.on.Delete(listed{n, w.Name})
	}
	if w.Tenant != "" {
		r.of.Delete(listed{w.Tenant, w.Name})
	}
}

// Window returns a window by its name.
func (r *Register) Window(name string) (*Window, bool) { return r.rows.Get(name) }

// Windows iterates all windows by name.
func (r *Register) Windows() iter.Seq[*Window] { return r.rows.Rows() }

// WindowCount is how many there are.
func (r *Register) WindowCount() int { return r.rows.Len() }

// WindowsOn iterates the windows that a node is in, by name.
func (r *Register) WindowsOn(node string) iter.Seq[*Window] {
	return func(yield func(*Window) bool) {
		if r.rows.Len() == 0 {
			return
		}
		r.on.AscendFrom(listed{under: node}, func(l listed) bool {
			if l.under != node {
				return false
			}
			w, _ := r.rows.Get(l.name)
			return yield(w)
		})
	}
}

// Reserved says whether a tenant has a reservation.
func (r *Register) Reserved(tenant string) bool {
	found := false
	if r.of.Len() > 0 {
		r.of.AscendFrom(listed{under: tenant}, func(l listed) bool {
			found = l.under == tenant
			return false
		})
	}
	return found
}

// NextTurn is when the next window begins or ends; false: there is none.
func (r *Register) NextTurn() (int64, bool) {
	t, ok := r.turns.Min()
	return t.at, ok
}

// DueWindow returns a window that has to begin or to end; nil: there is none.
func (r *Register) DueWindow(now int64) *Window {
	if t, ok := r.turns.Min(); ok && t.at <= now {
		w, _ := r.rows.Get(t.name)
		return w
	}
	return nil
}
