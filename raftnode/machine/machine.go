// Package machine adapts a state machine to hashicorp/raft, and lets callers wait until an index is applied.
//
// Guarantees: entries are applied in their order, once for each time that raft delivers them. Wait returns without an
// error only when the state has the index. A snapshot has the index of its state.
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

// snapshotMagic begins every snapshot file. The index of the state follows, and then the bytes of the state machine.
const snapshotMagic = "mindraft"

// StateMachine is a state machine that a node can replicate. Its methods are called from one goroutine at a time.
type StateMachine interface {
	// Apply applies one committed entry, as it was packed, and returns
	// one result for each of its commands, in their order.
	Apply(index uint64, entry []byte) []any
	// Snapshot returns the current state. It must be quick, because nothing is applied until it returns. The snapshot
	// is written concurrently with Apply.
	Snapshot() (Snapshot, error)
	// Restore replaces the state.
	Restore(io.Reader) error
	// StoreConfiguration is called with the ids of the voters since index.
	StoreConfiguration(index uint64, voters []string)
}

// Snapshot is a state that does not change while it is written.
type Snapshot interface {
	WriteTo(io.Writer) (int64, error)
	Release()
}

// Machine adapts a StateMachine to raft, and knows the index up to which entries are applied.
//
// An entry without data is a barrier of the node, which the state machine does not see. It is an ordinary entry, and
// not a barrier of raft, because raft does not report to its state machine that it has passed one of those. After a
// barrier of this kind, all replicas can wait for every index that a leader of this term commits.
type Machine struct {
	sm      StateMachine
	applied target
}

// New returns a Machine for a state machine in its initial state.
func New(sm StateMachine) *Machine { return &Machine{sm: sm} }

// State returns the state machine that was given to New.
func (m *Machine) State() StateMachine { return m.sm }

// Applied returns the highest index that was applied.
func (m *Machine) Applied() uint64 { return m.applied.current() }

// Wait waits until index is applied. It returns early with the cause of ctx when ctx ends, and with why when stopped is
// closed.
func (m *Machine) Wait(ctx context.Context, index uint64, stopped <-chan struct{}, why error) error {
	return m.applied.wait(ctx, index, stopped, why)
}

// Apply implements raft.FSM; raft calls ApplyBatch instead.
func (m *Machine) Apply(entry *raft.Log) any { return m.ApplyBatch([]*raft.Log{entry})[0] }

// ApplyBatch implements raft.BatchingFSM. The response for a command is the []any of the entry's results.
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
