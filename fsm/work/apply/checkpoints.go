package apply

import (
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// register mints an id for a checkpoint and takes it in. One that was reported before keeps its id; one that was
// written over an earlier one takes its place.
func (tx *tx) register(c *work.Checkpoint) (ident.Checkpoint, bool) {
	var oldest, replaced *work.Checkpoint
	n := 0
	for have := range tx.CheckpointsOf(c.Job) {
		n++
		if oldest == nil {
			oldest = have
		}
		if have.Path != c.Path || have.Node != c.Node {
			continue
		}
		if have.Attempt == c.Attempt && have.Digest == c.Digest && have.Step == c.Step {
			return have.ID, false
		}
		replaced = have
	}
	id, ok := tx.mint()
	if !ok {
		return 0, false
	}
	if replaced == nil && n >= work.MaxCheckpointsPerJob {
		replaced = oldest
	}
	if replaced != nil {
		tx.DropCheckpoint(replaced)
	}
	c.ID = ident.Checkpoint(id)
	tx.PutCheckpoint(c)
	tx.emit(event.Event{Topic: event.TopicCheckpoint, Tenant: c.Tenant, Job: c.Job, Attempt: c.Attempt, Checkpoint: c.ID, Nodes: []string{c.Node}})
	return c.ID, true
}

func deleteCheckpoint(tx *tx, c *work.DeleteCheckpoint) any {
	have, ok := tx.Checkpoint(c.ID)
	if !ok || have.Tenant != c.Tenant {
		return work.CheckpointResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoCheckpoint, c.ID)}
	}
	j, ok := tx.Job(have.Job)
	if ok && !j.Terminal() && tx.newest(j) == c.ID {
		return work.CheckpointResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.CheckpointNeeded, j.ID, j.State, c.ID)}
	}
	tx.DropCheckpoint(have)
	tx.emit(event.Event{Topic: event.TopicCheckpoint, Tenant: have.Tenant, Job: have.Job, Attempt: have.Attempt, Checkpoint: c.ID, Nodes: []string{have.Node}})
	if !ok {
		return work.CheckpointResult{Checkpoint: have}
	}
	changed := *j
	if j.LastCheckpoint == c.ID {
		changed.LastCheckpoint = 0
		for left := range tx.CheckpointsOf(j.ID) {
			changed.LastCheckpoint = left.ID
		}
	}
	if j.ResumeFrom == c.ID {
		changed.ResumeFrom = 0
	}
	if changed.LastCheckpoint != j.LastCheckpoint || changed.ResumeFrom != j.ResumeFrom {
		tx.saveJob(j, &changed)
		tx.emitJob(&changed, changed.State)
	}
	return work.CheckpointResult{Checkpoint: have}
}
