package fsm

import (
	"fmt"
	"sync/atomic"
)

// Machine applies log entries. One goroutine drives it; View and Snapshot may be called by anybody.
type Machine struct {
	st        *state
	view      atomic.Pointer[View]
	observers []func(*View, []Event)
	tx        tx
}

// Option changes how a Machine is made. There is none yet.
type Option func(*Machine)

// Ignored is the result of a command that this version does not know and that is marked as one to skip.
type Ignored struct{}

// New returns a Machine in the state before the first log entry.
func New(opts ...Option) *Machine {
	m := &Machine{st: newState()}
	for _, o := range opts {
		o(m)
	}
	m.publish()
	return m
}

// OnApply registers an observer: it is called after every publish, on the applying goroutine, with the new View and
// what changed, in order. It must not block, and must not keep the slice. Register before the first Apply.
func (m *Machine) OnApply(f func(v *View, events []Event)) {
	m.observers = append(m.observers, f)
}

// View returns the newest published state.
func (m *Machine) View() *View { return m.view.Load() }

// Apply applies one log entry, publishes the View, and returns one result per command. It panics on an entry that
// cannot be understood, and on one that is not newer than the last.
func (m *Machine) Apply(index uint64, entry []byte) []any {
	results := m.apply(index, entry)
	m.settle()
	return results
}

// ApplyBatch applies several entries and publishes once.
func (m *Machine) ApplyBatch(entries []Entry) [][]any {
	out := make([][]any, len(entries))
	for i, e := range entries {
		out[i] = m.apply(e.Index, e.Data)
	}
	m.settle()
	return out
}

// StoreConfiguration remembers who votes. It is a change at a log index like any other.
func (m *Machine) StoreConfiguration(index uint64, voters []string) {
	s := m.st
	s.meta.Index = max(s.meta.Index, index)
	s.meta.VotersIndex = index
	s.meta.Voters = append([]string(nil), voters...)
	s.meta.touch()
	m.settle()
}

func (m *Machine) apply(index uint64, data []byte) []any {
	if index <= m.st.meta.Index {
		panic(fmt.Sprintf("fsm: entry %d after entry %d was applied", index, m.st.meta.Index))
	}
	entry, err := decodeEntry(data)
	if err != nil {
		panic(fmt.Sprintf("fsm: log entry %d cannot be applied, so this replica stops: %v", index, err))
	}
	s := m.st
	s.meta.Index = index
	s.meta.Now = max(s.meta.Now, entry.stamp)
	s.meta.touch()
	tx := &m.tx
	tx.state, tx.index, tx.now, tx.minted, tx.pos, tx.audited, tx.version = s, index, s.meta.Now, 0, 0, 0, entry.version
	if entry.version >= 2 && s.meta.Second == 0 {
		s.meta.Second = index
	}
	results := make([]any, len(entry.commands))
	for i, c := range entry.commands {
		if c == nil {
			results[i] = Ignored{}
			continue
		}
		results[i] = c.apply(tx)
		if a, ok := c.(audited); ok {
			if who := a.actor(); who != nil {
				a.audit(tx, who, results[i])
			}
		}
	}
	return results
}

// settle publishes what was applied, and tells the observers.
func (m *Machine) settle() {
	v := m.publish()
	events := m.tx.events
	for _, f := range m.observers {
		f(v, events)
	}
	clear(events)
	m.tx.events = events[:0]
}

func (m *Machine) publish() *View {
	v := &View{state: m.st.freeze()}
	v.sum = v.hash()
	m.view.Store(v)
	return v
}

// tx is the application of one entry.
type tx struct {
	*state
	index  uint64
	now    int64
	minted int
	pos    int
	// audited counts the audit records of this entry.
	audited uint32
	// version is that of the entry.
	version byte
	events  []Event
}

// mint returns the next id of this entry; false when it has none left.
func (tx *tx) mint() (uint64, bool) {
	if tx.minted >= MaxIDsPerEntry {
		return 0, false
	}
	id := tx.index<<idPositionBits | uint64(tx.minted)
	tx.minted++
	return id, true
}

func (tx *tx) emit(e Event) {
	e.Index, e.Pos = tx.index, tx.pos
	tx.pos++
	tx.events = append(tx.events, e)
}
