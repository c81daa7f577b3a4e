package kernel

import (
	"fmt"
	"sync/atomic"
)

// Machine applies log entries. One goroutine drives it; View and Snapshot may be called by anybody. V is the type of views,
// E the type of events.
type Machine[V, E any] struct {
	config    Config[V, E]
	st        *State
	published atomic.Pointer[published[V]]
	observers []func(*V, []E)
	tx        Tx
	events    []E
}

// Config composes a machine.
type Config[V, E any] struct {
	Registry *Registry
	// View makes what readers are given of a frozen state.
	View func(v *View) *V
	// Restored returns the event of a state that was replaced as a whole.
	Restored func(index uint64) E
}

// published is a frozen state, and what readers see of it.
type published[V any] struct {
	frozen *View
	view   *V
}

// Ignored is the result of a command that this version does not know and that is marked as one to skip.
type Ignored struct{}

// New returns a Machine in the state before the first log entry.
func New[V, E any](config Config[V, E]) *Machine[V, E] {
	m := &Machine[V, E]{config: config}
	m.tx.events = &m.events
	m.begin(newState(m.config.Registry))
	m.publish()
	return m
}

// begin makes a state the one that entries are applied to.
func (m *Machine[V, E]) begin(s *State) {
	m.st, m.tx.State = s, s
	m.tx.minted, m.tx.pos = 0, 0
}

// OnApply registers an observer: it is called after every publish, on the applying goroutine, with the new view and
// what changed, in order. It must not block, and must not keep the slice. Register before the first Apply.
func (m *Machine[V, E]) OnApply(f func(v *V, events []E)) {
	m.observers = append(m.observers, f)
}

// View returns the newest published state.
func (m *Machine[V, E]) View() *V { return m.published.Load().view }

// Apply applies one log entry, publishes the view, and returns one result per command. It panics on an entry that
// cannot be understood, and on one that is not newer than the last.
func (m *Machine[V, E]) Apply(index uint64, entry []byte) []any {
	results := m.apply(index, entry)
	m.settle()
	return results
}

// StoreConfiguration stores the voters. It is a change at a log index like any other.
func (m *Machine[V, E]) StoreConfiguration(index uint64, voters []string) {
	b := m.st.base
	b.Index = max(b.Index, index)
	b.VotersIndex = index
	b.Voters = append([]string(nil), voters...)
	b.Touch()
	m.settle()
}

func (m *Machine[V, E]) apply(index uint64, data []byte) []any {
	base := m.st.base
	if index <= base.Index {
		panic(fmt.Sprintf("fsm: entry %d after entry %d was applied", index, base.Index))
	}
	entry, err := m.config.Registry.decodeEntry(data)
	if err != nil {
		panic(fmt.Sprintf("fsm: log entry %d cannot be applied, so this replica stops: %v", index, err))
	}
	base.Index = index
	base.Now = max(base.Now, entry.stamp)
	base.Touch()
	tx := &m.tx
	tx.minted, tx.pos, tx.audited, tx.level = 0, 0, 0, entry.version
	m.st.Raise(entry.version) // A replica writes no less than what it has applied.
	results := make([]any, len(entry.commands))
	for i, c := range entry.commands {
		if c.command == nil {
			results[i] = Ignored{}
			continue
		}
		results[i] = c.def.apply(tx, c.command)
		if c.def.audit != nil {
			c.def.audit(tx, c.command, results[i])
		}
	}
	return results
}

// settle publishes what was applied, and tells the observers.
func (m *Machine[V, E]) settle() {
	v := m.publish()
	for _, f := range m.observers {
		f(v, m.events)
	}
	clear(m.events)
	m.events = m.events[:0]
}

func (m *Machine[V, E]) publish() *V {
	frozen := &View{state: m.st.freeze()}
	frozen.sum = frozen.state.hash()
	view := m.config.View(frozen)
	m.published.Store(&published[V]{frozen, view})
	return view
}
