package work

import (
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
)

// The commands of this package that are not the same at every level.

// AtLevel implements kernel.Leveled.
func (c SubmitJobs) AtLevel(at level.Level) (kernel.Command, error) {
	if c.version() == submitVersion {
		return c, level.NotRestarted.Check(at)
	}
	return c, nil
}

// AtLevel implements kernel.Leveled.
func (c ControlJob) AtLevel(at level.Level) (kernel.Command, error) {
	if c.Vouch {
		return c, level.Vouching.Check(at)
	}
	return c, nil
}

// AtLevel implements kernel.Leveled.
func (c RegisterNode) AtLevel(at level.Level) (kernel.Command, error) {
	if !level.Recovery.Open(at) {
		c.Node.Unheard = false // It is the FSM's, and ignored.
	}
	return c, nil
}

// AtLevel implements kernel.Leveled.
func (c Recover) AtLevel(at level.Level) (kernel.Command, error) {
	return c, level.Recovery.Check(at)
}

// AtLevel implements kernel.Leveled.
func (c NoteSnapshot) AtLevel(at level.Level) (kernel.Command, error) {
	return c, level.SnapshotNotes.Check(at)
}
