// Package machine puts a state machine into the shape that raft wants, and says how far it has come.
//
// Guarantees: entries are applied in their order, once for each time that raft hands them over. What waits for an index goes on
// when the state has it, and not before. A snapshot carries the index that its state has.
//
// Not guaranteed: anything about what a state machine does with an entry.
package machine

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// snapshotMagic opens every snapshot file; the index that the state has
// follows, then the state machine's own bytes.
const snapshotMagic = "mindraft"

// StateMachine is what a node replicates. Apply, Snapshot, Restore and
// StoreConfiguration are called from one goroutine at a time.
type StateMachine interface {
	// Apply applies one committed entry, as it was packed, and returns
	// one result for each of its commands, in their order.
	Apply(index uint64, entry []byte) []any
	// Snapshot returns the state as of now. It must be quick: nothing is
	// applied until it returns. Writing the snapshot runs beside Apply.
	Snapshot() (Snapshot, error)
	// Restore replaces the state.
	Restore(io.Reader) error
	// StoreConfiguration is told the ids of the voters as of index.
	StoreConfiguration(index uint64, voters []string)
}

// Snapshot is a state that does not change while it is written.
type Snapshot interface {
	WriteTo(io.Writer) (int64, error)
	Release()
}

// Machine is a StateMachine in the shape that raft wants, and the index that it
// has reached.
//
// An entry without data is a barrier: it is for the node, and the state machine
// does not see it. Barriers are ordinary entries and not raft's own kind,
// because raft reports to nobody that it passed one of those: after a barrier
// of this kind every index that a leader of this term commits is an index that
// all replicas are told of, and can wait for.
type Machine struct {
	sm      StateMachine
	applied target
}

// New wraps a state machine in its first state.
func New(sm StateMachine) *Machine { return &Machine{sm: sm} }

// State is what was given to New.
func (m *Machine) State() StateMachine { return m.sm }

// Applied is the highest index that was applied.
func (m *Machine) Applied() uint64 { return m.applied.current() }

// Wait returns nil once an index is applied, or early: with the cause of ctx, or with why when stopped is closed.
func (m *Machine) Wait(ctx context.Context, index uint64, stopped <-chan struct{}, why error) error {
	return m.applied.wait(ctx, index, stopped, why)
}

// Apply implements raft.FSM; raft calls ApplyBatch instead.
func (m *Machine) Apply(entry *raft.Log) any { return m.ApplyBatch([]*raft.Log{entry})[0] }

// ApplyBatch implements raft.BatchingFSM. Each response is the []any of the
// entry's results.
func (m *Machine) ApplyBatch(entries []*raft.Log) []any {
	responses := make([]any, len(entries))
	for i, entry := range entries {
		switch {
		case entry.Type == raft.LogConfiguration:
			m.StoreConfiguration(entry.Index, raft.DecodeConfiguration(entry.Data))
		case len(entry.Data) > 0:
			responses[i] = m.sm.Apply(entry.Index, entry.Data)
		}
	}
	m.applied.reach(entries[len(entries)-1].Index)
	return responses
}

// StoreConfiguration implements raft.ConfigurationStore.
func (m *Machine) StoreConfiguration(index uint64, configuration raft.Configuration) {
	var voters []string
	for _, s := range configuration.Servers {
		if s.Suffrage == raft.Voter {
			voters = append(voters, string(s.ID))
		}
	}
	m.sm.StoreConfiguration(index, voters)
}

// Snapshot implements raft.FSM.
func (m *Machine) Snapshot() (raft.FSMSnapshot, error) {
	s, err := m.sm.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("snapshot of the state machine: %w", err)
	}
	return &snapshot{Snapshot: s, index: m.applied.current()}, nil
}

// Restore implements raft.FSM.
func (m *Machine) Restore(from io.ReadCloser) error {
	defer from.Close()
	header := make([]byte, len(snapshotMagic)+8)
	if _, err := io.ReadFull(from, header); err != nil {
		return fmt.Errorf("read snapshot header: %w", err)
	}
	if string(header[:len(snapshotMagic)]) != snapshotMagic {
		return fmt.Errorf("read snapshot header: not a snapshot of this program")
	}
	if err := m.sm.Restore(from); err != nil {
		return fmt.Errorf("restore the state machine: %w", err)
	}
	m.applied.reach(binary.BigEndian.Uint64(header[len(snapshotMagic):]))
	return nil
}

type snapshot struct {
	Snapshot
	index uint64
}

// Persist implements raft.FSMSnapshot.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	header := binary.BigEndian.AppendUint64([]byte(snapshotMagic), s.index)
	_, err := sink.Write(header)
	if err == nil {
		_, err = s.WriteTo(sink)
	}
	if err != nil {
		_ = sink.Cancel()
		return fmt.Errorf("write snapshot: %w", err)
	}
	return sink.Close()
}
