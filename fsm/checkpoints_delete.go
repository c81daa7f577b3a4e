package fsm

// DeleteCheckpoint takes a checkpoint of a tenant out of the state. The files are the user's, and stay.
type DeleteCheckpoint struct {
	Tenant string       `cbor:"1,keyasint,omitempty"`
	ID     CheckpointID `cbor:"2,keyasint,omitempty"`
	Actor  *Actor       `cbor:"3,keyasint,omitempty"`
}

// CheckpointResult is the checkpoint that was there, or why nothing was done.
type CheckpointResult struct {
	Checkpoint *Checkpoint
	Refusal    *Refusal
}

func (DeleteCheckpoint) commandType() uint16 { return 18 }

func (c DeleteCheckpoint) apply(tx *tx) any {
	have, ok := tx.Checkpoint(c.ID)
	if !ok || have.Tenant != c.Tenant {
		return CheckpointResult{Refusal: refuse(CodeNotFound, "there is no checkpoint %s", c.ID)}
	}
	j, ok := tx.Job(have.Job)
	if ok && !j.Terminal() && tx.newest(j) == c.ID {
		return CheckpointResult{Refusal: refuse(CodeFailedPrecondition,
			"job %s, which is %s, would go on from checkpoint %s: cancel the job first, or wait for a newer checkpoint", j.ID, j.State, c.ID)}
	}
	tx.dropCheckpoint(have)
	tx.emit(Event{Topic: TopicCheckpoint, Tenant: have.Tenant, Job: have.Job, Attempt: have.Attempt, Checkpoint: c.ID, Nodes: []string{have.Node}})
	if !ok {
		return CheckpointResult{Checkpoint: have}
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
	return CheckpointResult{Checkpoint: have}
}
