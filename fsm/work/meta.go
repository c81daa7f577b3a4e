package work

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// Meta is the meta row: what the kernel keeps, and the figures of this aggregate.
type Meta struct {
	kernel.Base
	// Considered: the scheduler has looked at all jobs created up to this index.
	Considered uint64 `cbor:"2,keyasint,omitempty"`
	// Fenced counts the stale reports that were refused.
	Fenced uint64 `cbor:"3,keyasint,omitempty"`
	// Dropped counts the finished jobs that were dropped to keep to the bound.
	Dropped      uint64 `cbor:"4,keyasint,omitempty"`
	KeepFinished uint32 `cbor:"5,keyasint,omitempty"`
	// RosterVersion is the index of the last change of the roster.
	RosterVersion uint64 `cbor:"8,keyasint,omitempty"`
	// NodesLost counts the nodes that a majority declared lost.
	NodesLost uint64 `cbor:"9,keyasint,omitempty"`
	// Incomplete counts the checkpoints that were refused because they had no manifest.
	Incomplete uint64 `cbor:"10,keyasint,omitempty"`
	// KeepAudit bounds each kind of audit records; 0: access.DefaultKeepAudit.
	KeepAudit uint32 `cbor:"12,keyasint,omitempty"`
	// Recovered is the index of the last Recover, RecoveredAt its log time; 0: there was none.
	Recovered   uint64 `cbor:"13,keyasint,omitempty"`
	RecoveredAt int64  `cbor:"14,keyasint,omitempty"`
	// Accounting is the index from which on the accounts of users are kept; 0: they are not yet.
	Accounting uint64 `cbor:"51,keyasint,omitempty"`
	// LastArray is the newest job array; 0: there was none.
	LastArray ident.Job `cbor:"56,keyasint,omitempty"`
}

// Copy implements kernel.MetaRow.
func (m *Meta) Copy() kernel.MetaRow { c := *m; return &c }

// AppendFields implements kernel.Hashed.
func (m *Meta) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Int(m.Now).Num(uint64(m.Level)).Num(m.VotersIndex).Num(uint64(len(m.Voters)))
	for _, v := range m.Voters {
		f = f.Text(v)
	}
	f = f.Num(m.Considered).Num(m.Fenced).Num(m.Dropped).Num(m.Incomplete).Num(m.RosterVersion).Num(m.NodesLost)
	f = f.Num(uint64(m.KeepFinished)<<32 | uint64(m.KeepAudit)).Num(m.Recovered).Int(m.RecoveredAt)
	return f.Num(m.Accounting).Num(uint64(m.LastArray))
}
