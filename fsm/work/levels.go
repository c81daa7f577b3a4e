package work

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
)

// The commands of this package that are not the same at every level.

// AtLevel implements kernel.Leveled.
func (c SubmitJobs) AtLevel(at level.Level) (kernel.Command, error) {
	switch c.version() {
	case submitVersion:
		if slices.ContainsFunc(c.Jobs, func(n NewJob) bool { return n.Shape.PlacesMore() }) {
			return c, level.Domains.Check(at)
		}
		return c, level.Notices.Check(at)
	case submitWithArray:
		return c, level.Arrays.Check(at)
	}
	if !level.DurableCheckpoints.Open(at) && c.version() >= submitWithScores {
		// What is scored is only kept; what is to be given up would not be.
		c.Jobs = slices.Clone(c.Jobs)
		for i := range c.Jobs {
			c.Jobs[i].Scores = 0
		}
	}
	switch c.version() {
	case submitWithScores:
		return c, level.DurableCheckpoints.Check(at)
	case submitWithNever:
		return c, level.NotRestarted.Check(at)
	}
	return c, nil
}

// AtLevel implements kernel.Leveled.
func (c ControlJob) AtLevel(at level.Level) (kernel.Command, error) {
	if c.Shape != nil && c.Shape.PlacesMore() {
		if err := level.Domains.Check(at); err != nil {
			return c, err
		}
	}
	if c.Vouch {
		return c, level.Vouching.Check(at)
	}
	return c, nil
}

// AtLevel implements kernel.Leveled.
func (c PutQueue) AtLevel(at level.Level) (kernel.Command, error) {
	c.Queue.Moved = 0 // It is the FSM's, and ignored.
	if len(c.Queue.MaxByType) > 0 || c.Queue.Guaranteed != 0 {
		return c, level.Guarantees.Check(at)
	}
	if c.Queue.Parent != "" {
		return c, level.FairShare.Check(at)
	}
	return c, nil
}

// AtLevel implements kernel.Leveled.
func (c PutQuota) AtLevel(at level.Level) (kernel.Command, error) {
	if len(c.MaxByType) > 0 || c.MaxGPUHours != nil {
		return c, level.MoreQuotas.Check(at)
	}
	return c, nil
}

// AtLevel implements kernel.Leveled.
func (c PutPolicy) AtLevel(at level.Level) (kernel.Command, error) {
	if c.Policy.Levels != "" {
		return c, level.Domains.Check(at)
	}
	return c, level.FairShare.Check(at)
}

// AtLevel implements kernel.Leveled.
func (c RegisterNode) AtLevel(at level.Level) (kernel.Command, error) {
	if !level.Recovery.Open(at) {
		c.Node.Unheard = false // It is the FSM's, and ignored.
	}
	c.Node.Archive = c.Node.Archive && level.DurableCheckpoints.Open(at)
	if !level.UnfitNodes.Open(at) {
		c.Node.Unfit = ""
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
