package replica

import (
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/raftnode"
)

// Hosted adapts the state machine for raftnode.
type Hosted struct {
	*fsm.Machine
	// Tamper replaces the entries that are applied; nil: they are not changed.
	Tamper func(index uint64, entry []byte) []byte
}

// Apply implements raftnode.StateMachine.
func (r Hosted) Apply(index uint64, entry []byte) []any {
	if r.Tamper != nil {
		entry = r.Tamper(index, entry)
	}
	return r.Machine.Apply(index, entry)
}

// Snapshot implements raftnode.StateMachine.
func (r Hosted) Snapshot() (raftnode.Snapshot, error) { return r.Machine.Snapshot(), nil }
