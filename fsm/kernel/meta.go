package kernel

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/mindcoordinator/mind/fsm/level"
)

// Base has the fields of the kernel itself: the part of the meta row that is there whatever the domains are.
type Base struct {
	// Index is that of the last entry; it is in the header of snapshots, not in the hash.
	Index uint64 `cbor:"-"`
	// Now is log time, Unix nanoseconds. It never goes back.
	Now int64 `cbor:"1,keyasint,omitempty"`
	// Voters are the ids of the replicas that vote, as of the configuration at VotersIndex.
	VotersIndex uint64   `cbor:"6,keyasint,omitempty"`
	Voters      []string `cbor:"7,keyasint,omitempty"`
	// Level is the feature level that the cluster was raised to; 0: it never was.
	Level level.Level `cbor:"15,keyasint,omitempty"`

	// sum is the hash, 0 when it has to be taken again.
	sum uint64
}

// Kernel returns the part that the kernel keeps.
func (b *Base) Kernel() *Base { return b }

// Touch says that a field of the meta row was changed.
func (b *Base) Touch() { b.sum = 0 }

// MetaRow is the one row of what belongs to no table: a struct that embeds Base, with figures that a domain keeps there.
type MetaRow interface {
	Hashed
	Kernel() *Base
	// Copy returns a copy, for a view.
	Copy() MetaRow
}

const recordMeta = 1

// plainMeta is the row when no domain extends it.
type plainMeta struct{ Base }

func (m *plainMeta) AppendFields(f Fields) Fields {
	f = f.Int(m.Now).Num(m.VotersIndex).Num(uint64(len(m.Voters)))
	for _, v := range m.Voters {
		f = f.Text(v)
	}
	return f.Num(uint64(m.Level))
}

func (m *plainMeta) Copy() MetaRow { c := *m; return &c }

func hashMeta(m MetaRow) uint64 {
	return xxhash.Sum64(m.AppendFields(Fields(nil).Num(recordMeta)))
}

func (r *Registry) metaRecord() RecordDef {
	return RecordDef{
		Number: recordMeta,
		Name:   "meta",
		Blank:  func() Hashed { return r.meta.New() },
		Save:   func(s *State, emit func(any) error) error { return emit(s.meta) },
		Load: func(s *State, data []byte) error {
			if s.base.Now != 0 {
				return fmt.Errorf("a second meta record")
			}
			if err := decMode.Unmarshal(data, s.meta); err != nil {
				return err
			}
			s.base.Touch()
			if r.meta.Loaded != nil {
				r.meta.Loaded(s)
			}
			return nil
		},
		Sum: func(s *State) uint64 {
			if s.base.sum == 0 {
				s.base.sum = hashMeta(s.meta)
			}
			return s.base.sum
		},
		Recount: func(s *State) uint64 { return hashMeta(s.meta) },
	}
}
