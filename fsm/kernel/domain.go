package kernel

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mindcoordinator/mind/fsm/level"
)

// Domain is one part of the state: its tables, its commands, its timers, and what must hold of it. All fields but Name
// may be left out.
type Domain struct {
	Name string
	// Open returns the tables of a state before the first entry.
	Open func(s *State) Part
	// Meta extends the meta row. One domain of a list at most has it.
	Meta     *MetaDef
	Records  []RecordDef
	Commands []CommandDef
	// Due is the log time from which on a tick has something to do in a frozen state; false: never, as things are.
	Due func(s *State) (at int64, any bool)
	// Tick does what is due, a bounded part of it at a time; true: there is more. See Tx.FireTimers.
	Tick func(tx *Tx) (more bool)
	// Check reports what does not hold of a frozen state and always should.
	Check func(s *State, report Report)
}

// Report takes down one finding of a check.
type Report func(format string, args ...any)

// Part is the tables of a domain in a state: a pointer to a struct of tables.
type Part interface {
	// Freeze returns an immutable copy, for a view. It costs a little for each table that changed.
	Freeze(to *State) Part
}

// MetaDef extends the meta row.
type MetaDef struct {
	New func() MetaRow
	// Loaded is called when the row was read from a snapshot, before any other record is.
	Loaded func(s *State)
}

// RecordDef makes a kind of row known to snapshots and to the hash.
type RecordDef struct {
	// Number is append-only: never reused, never changed.
	Number uint16
	Name   string
	// Order is its place in a snapshot: a kind that is derived from others comes after them. 0: its number.
	Order uint16
	// Blank returns a pointer to a row with nothing in it.
	Blank func() Hashed
	Save  func(s *State, emit func(row any) error) error
	Load  func(s *State, data []byte) error
	// Sum is the running hash of all rows, Recount the same computed again.
	Sum     func(s *State) uint64
	Recount func(s *State) uint64
}

// Rows is a line of a domain's list of records. insert puts a loaded row into the table and into all that is derived
// from it.
func Rows[T any, K any, R interface {
	*T
	Row
}](number uint16, name string, at func(s *State) *Table[K, R], insert func(s *State, r R) error) RecordDef {
	return RecordDef{
		Number: number,
		Name:   name,
		Blank:  func() Hashed { return R(new(T)) },
		Save: func(s *State, emit func(any) error) error {
			for r := range at(s).Rows() {
				if err := emit(r); err != nil {
					return err
				}
			}
			return nil
		},
		Load: func(s *State, data []byte) error {
			r := R(new(T))
			if err := decMode.Unmarshal(data, r); err != nil {
				return err
			}
			return insert(s, r)
		},
		Sum:     func(s *State) uint64 { return at(s).sum },
		Recount: func(s *State) uint64 { return at(s).recount() },
	}
}

// Registry is a list of domains, and what all of them have registered.
type Registry struct {
	domains  []Domain
	commands map[uint16]CommandDef
	// records by their order in a snapshot; byNumber is the same by number.
	records  []RecordDef
	byNumber map[uint16]RecordDef
	meta     MetaDef
	format   string
	// levels are those at which entries and snapshots are read.
	levels level.Range
}

// Supporting returns the registry of a version of mind that supports these levels.
func (r *Registry) Supporting(levels level.Range) *Registry {
	other := *r
	other.levels = levels
	return &other
}

// Register makes a list of domains known. Two that claim the same number are a mistake in the program: it panics.
func Register(domains ...Domain) *Registry {
	r := &Registry{
		levels: level.Supported(), domains: domains, commands: map[uint16]CommandDef{}, byNumber: map[uint16]RecordDef{},
		meta: MetaDef{New: func() MetaRow { return &plainMeta{} }},
	}
	extended := ""
	for _, d := range domains {
		if d.Meta != nil {
			if extended != "" {
				panic(fmt.Sprintf("fsm: the meta row is extended by both %s and %s", extended, d.Name))
			}
			extended, r.meta = d.Name, *d.Meta
		}
		for _, c := range d.Commands {
			if other, taken := r.commands[c.Number]; taken {
				panic(fmt.Sprintf("fsm: command number %d is both %s and %s", c.Number, other.Name, c.Name))
			}
			r.commands[c.Number] = c
		}
		r.records = append(r.records, d.Records...)
	}
	r.records = append(r.records, r.metaRecord())
	for i := range r.records {
		def := &r.records[i]
		if def.Order == 0 {
			def.Order = def.Number
		}
		if other, taken := r.byNumber[def.Number]; taken {
			panic(fmt.Sprintf("fsm: record number %d is both %s and %s", def.Number, other.Name, def.Name))
		}
		r.byNumber[def.Number] = *def
	}
	slices.SortFunc(r.records, func(a, b RecordDef) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Number, b.Number))
	})
	r.format = describeFormat(r.records)
	return r
}

// Commands lists the commands of all domains, by domain.
func (r *Registry) Commands() []CommandDef {
	var defs []CommandDef
	for _, d := range r.domains {
		defs = append(defs, d.Commands...)
	}
	return defs
}

// Records lists the kinds of rows of all domains, in the order of a snapshot.
func (r *Registry) Records() []RecordDef { return slices.Clone(r.records) }

// HashFormat names what the hash of a view is taken of: the kinds of rows and their fields. Hashes of replicas that run
// different versions of mind can be compared only if it is the same for both.
func (r *Registry) HashFormat() string { return r.format }

// CheckEntry says whether these domains can apply a log entry, without applying it.
func (r *Registry) CheckEntry(data []byte) error {
	_, err := r.decodeEntry(data)
	return err
}

// Decode returns the commands of a log entry, as pointers; nil stands for one that may be skipped.
func (r *Registry) Decode(data []byte) ([]Command, error) {
	e, err := r.decodeEntry(data)
	if err != nil {
		return nil, err
	}
	commands := make([]Command, len(e.commands))
	for i := range e.commands {
		commands[i] = e.commands[i].command
	}
	return commands, nil
}
