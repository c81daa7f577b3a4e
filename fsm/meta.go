package fsm

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// meta is the one row of what belongs to no noun.
type meta struct {
	// Index is that of the last entry; it is in the header of snapshots, not in the hash.
	Index uint64 `cbor:"-"`
	// Now is log time, Unix nanoseconds. It never goes back.
	Now int64 `cbor:"1,keyasint,omitempty"`
	// Considered: the scheduler has looked at all jobs created up to this index.
	Considered uint64 `cbor:"2,keyasint,omitempty"`
	// Fenced counts the stale reports that were refused.
	Fenced uint64 `cbor:"3,keyasint,omitempty"`
	// Dropped counts the finished jobs that were dropped to keep to the bound.
	Dropped      uint64 `cbor:"4,keyasint,omitempty"`
	KeepFinished uint32 `cbor:"5,keyasint,omitempty"`
	// Voters are the ids of the replicas that vote, as of the configuration at VotersIndex.
	VotersIndex uint64   `cbor:"6,keyasint,omitempty"`
	Voters      []string `cbor:"7,keyasint,omitempty"`
	// RosterVersion is the index of the last change of the roster.
	RosterVersion uint64 `cbor:"8,keyasint,omitempty"`
	// NodesLost counts the nodes that a majority declared lost.
	NodesLost uint64 `cbor:"9,keyasint,omitempty"`
	// Incomplete counts the checkpoints that were refused because they had no manifest.
	Incomplete uint64 `cbor:"10,keyasint,omitempty"`
	// Second is the index of the first entry of version 2; what only that one demands does not hold of what is older.
	Second uint64 `cbor:"11,keyasint,omitempty"`
	// KeepAudit bounds each kind of audit records; 0: DefaultKeepAudit.
	KeepAudit uint32 `cbor:"12,keyasint,omitempty"`
	// Recovered is the index of the last Recover, RecoveredAt its log time; 0: there was none.
	Recovered   uint64 `cbor:"13,keyasint,omitempty"`
	RecoveredAt int64  `cbor:"14,keyasint,omitempty"`

	// sum is the hash, 0 when it has to be taken anew.
	sum uint64
}

const recordMeta = 1

// touch says that a field was changed.
func (m *meta) touch() { m.sum = 0 }

func (m *meta) hash() uint64 {
	if m.sum == 0 {
		m.sum = m.fresh()
	}
	return m.sum
}

func (m *meta) fresh() uint64 { return xxhash.Sum64(m.appendFields(fields(nil).num(recordMeta))) }

func (m *meta) keepFinished() int {
	if m.KeepFinished == 0 {
		return DefaultKeepFinished
	}
	return int(m.KeepFinished)
}

func (m *meta) keepAudit() int {
	if m.KeepAudit == 0 {
		return DefaultKeepAudit
	}
	return int(m.KeepAudit)
}

var metaDomain = domain{
	name: "meta",
	commands: []commandDef{
		defineCommand[Tick]("Tick"),
		defineCommand[Configure]("Configure"),
		defineCommand[Recover]("Recover"),
		defineCommand[NoteSnapshot]("NoteSnapshot"),
	},
	records: []recordDef{{
		number:  recordMeta,
		name:    "meta",
		save:    func(s *state, emit func(any) error) error { return emit(&s.meta) },
		sum:     func(s *state) uint64 { return s.meta.hash() },
		recount: func(s *state) uint64 { return s.meta.fresh() },
		load: func(s *state, data []byte) error {
			loaded := meta{Index: s.meta.Index}
			if err := decMode.Unmarshal(data, &loaded); err != nil {
				return err
			}
			if s.meta.Now != 0 {
				return fmt.Errorf("a second meta record")
			}
			s.meta = loaded
			return nil
		},
	}},
	open:   func(*state) {},
	freeze: func(*state, *state) {},
	check:  func(*state, func(string, ...any)) {},
}

func (Configure) commandType() uint16 { return 12 }

func (c Configure) apply(tx *tx) any {
	tx.meta.KeepFinished, tx.meta.KeepAudit = c.KeepFinished, c.KeepAudit
	tx.meta.touch()
	for k := range tx.audit.logs {
		tx.audit.logs[k].trim(tx.meta.keepAudit())
	}
	return ConfigureResult{}
}
