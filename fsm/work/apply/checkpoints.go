package apply

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
)

// register mints an id for a checkpoint and takes it in, and says whether that changed anything. One that was reported before
// keeps its id, and becomes a model if it is one now; one that was
// written over an earlier one takes its place, unless the archive has all of that one: it is what a job would go on from
// until the new one is DURABLE too.
func (tx *tx) register(c *checkpoints.Checkpoint) (ident.Checkpoint, bool) {
	var replaced []*checkpoints.Checkpoint
	n := 0
	for have := range tx.CheckpointsOf(c.Job) {
		n++
		if have.Path != c.Path || have.Node != c.Node {
			continue
		}
		if have.Attempt == c.Attempt && have.Digest == c.Digest && have.Step == c.Step {
			return have.ID, tx.becomesModel(have, c)
		}
		if !have.Durable() {
			replaced = append(replaced, have)
		}
	}
	id, ok := tx.mint()
	if !ok {
		return 0, false
	}
	if len(replaced) == 0 && n >= checkpoints.MaxPerJob {
		replaced = append(replaced, tx.leastWanted(c.Job))
	}
	for _, old := range replaced {
		tx.discard(old)
	}
	c.ID = ident.Checkpoint(id)
	c.State = v1.CheckpointState_LOCAL
	tx.reconsider(c.Job)
	checkpoints.Put(&tx.Tables, c)
	tx.emitCheckpoint(c, nil)
	return c.ID, true
}

// becomesModel says whether a checkpoint that was reported before is now said to be a model, and makes it one. A model stays one.
func (tx *tx) becomesModel(have, c *checkpoints.Checkpoint) bool {
	if !c.Model || have.Model || have.Expired() {
		return false
	}
	changed := *have
	changed.Model = true
	if c.Metrics != "" {
		changed.Metrics, changed.Score = c.Metrics, c.Score
	}
	tx.changeCheckpoint(&changed)
	tx.reconsider(c.Job)
	return true
}

// leastWanted is the checkpoint of a job that goes when there are too many: the oldest that was given up, else the oldest.
func (tx *tx) leastWanted(job ident.Job) *checkpoints.Checkpoint {
	var least *checkpoints.Checkpoint
	rank := 0
	for c := range tx.CheckpointsOf(job) {
		r := 1
		switch {
		case c.Expired() && c.Left == 0:
			r = 4
		case c.Expired():
			r = 3
		case !c.Pinned && !c.Model && !c.Durable() && !tx.Needed(c.ID):
			r = 2
		}
		if r > rank {
			least, rank = c, r
		}
	}
	return least
}

// discard takes a checkpoint out of the state. What the archive may have of it stays there as a leftover.
func (tx *tx) discard(c *checkpoints.Checkpoint) {
	checkpoints.Drop(&tx.Tables, c)
	if tx.mayBeArchived(c) {
		checkpoints.PutLeftover(&tx.Tables, &checkpoints.Leftover{ID: c.ID, Node: c.Node, Key: c.ArchiveKey(), StoredBytes: c.StoredBytes})
		tx.emitCheckpoint(c, tx.removersOf(c.Node))
	}
}

// mayBeArchived says whether there may be anything in the archive under the key of a checkpoint. An upload is ordered before
// anything is heard of it.
func (tx *tx) mayBeArchived(c *checkpoints.Checkpoint) bool {
	switch c.State {
	case v1.CheckpointState_UPLOADING, v1.CheckpointState_DURABLE:
		return true
	case v1.CheckpointState_EXPIRED:
		return c.Left&checkpoints.LeftArchived != 0
	}
	return tx.HasArchive(c.Node)
}

// removersOf are the nodes that may have to remove what a node has put into the archive.
func (tx *tx) removersOf(node string) []string {
	if tx.HasArchive(node) && !tx.Gone(node) {
		return nil
	}
	return tx.Archivists()
}

// emitCheckpoint tells of a change, and whose orders it changes: those of its node, of those that share its directory, and of
// some more.
func (tx *tx) emitCheckpoint(c *checkpoints.Checkpoint, more []string) {
	nodes := append([]string{c.Node}, more...)
	for o := range tx.AtPath(c.Path) {
		if o.Job == c.Job && !slices.Contains(nodes, o.Node) {
			nodes = append(nodes, o.Node)
		}
	}
	tx.emit(event.Event{Topic: event.TopicCheckpoint, Tenant: c.Tenant, Job: c.Job, Attempt: c.Attempt, Checkpoint: c.ID, Nodes: nodes})
}

// lastOf is the newest checkpoint of a job that an attempt can go on from; 0: there is none.
func (tx *tx) lastOf(job ident.Job) ident.Checkpoint {
	var last ident.Checkpoint
	for c := range tx.CheckpointsOf(job) {
		if c.Resumable() {
			last = c.ID
		}
	}
	return last
}

// unrefer lets a job forget a checkpoint that it cannot go on from any more.
func (tx *tx) unrefer(id ident.Job, c ident.Checkpoint) {
	j, ok := tx.Job(id)
	if !ok || j.LastCheckpoint != c && j.ResumeFrom != c {
		return
	}
	changed := *j
	if j.LastCheckpoint == c {
		changed.LastCheckpoint = tx.lastOf(j.ID)
	}
	if j.ResumeFrom == c {
		changed.ResumeFrom = 0
	}
	tx.saveJob(j, &changed)
	tx.emitJob(&changed, changed.State)
}

func deleteCheckpoint(tx *tx, c *checkpoints.Delete) any {
	have, refusal := tx.ownCheckpoint(c.Tenant, c.ID)
	if refusal != nil {
		return checkpoints.Result{Refusal: refusal}
	}
	if j, ok := tx.Job(have.Job); ok && !j.Terminal() && tx.newest(j) == c.ID {
		return checkpoints.Result{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.CheckpointNeeded, j.ID, j.State, c.ID)}
	}
	tx.discard(have)
	tx.emitCheckpoint(have, nil)
	tx.unrefer(have.Job, c.ID)
	return checkpoints.Result{Checkpoint: have}
}

// ownCheckpoint finds a checkpoint of a tenant.
func (tx *tx) ownCheckpoint(tenant string, id ident.Checkpoint) (*checkpoints.Checkpoint, *kernel.Refusal) {
	c, ok := tx.Checkpoint(id)
	if !ok || c.Tenant != tenant {
		return nil, kernel.Refuse(kernel.CodeNotFound, reason.NoCheckpoint, id)
	}
	return c, nil
}

func pinCheckpoint(tx *tx, c *checkpoints.Pin) any {
	have, refusal := tx.ownCheckpoint(c.Tenant, c.ID)
	switch {
	case refusal != nil:
		return checkpoints.Result{Refusal: refusal}
	case have.Expired() && !c.Off:
		return checkpoints.Result{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.CheckpointExpired, c.ID, have.Reason)}
	case have.Pinned == !c.Off:
		return checkpoints.Result{Checkpoint: have}
	}
	changed := *have
	changed.Pinned = !c.Off
	tx.changeCheckpoint(&changed)
	tx.reconsider(have.Job)
	return checkpoints.Result{Checkpoint: &changed}
}

// admitCheckpoint checks that a job of the tenant may go on from a checkpoint.
func (tx *tx) admitCheckpoint(tenant string, id ident.Checkpoint) *kernel.Refusal {
	if id == 0 {
		return nil
	}
	switch c, ok := tx.Checkpoint(id); {
	case !ok || c.Tenant != tenant:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NoCheckpoint, id)
	case c.Expired():
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CheckpointExpired, id, c.Reason)
	case c.Model:
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CheckpointIsModel, id)
	}
	return nil
}

// admitScored checks that an evaluation of the tenant may score a checkpoint.
func (tx *tx) admitScored(j *work.Job) *kernel.Refusal {
	if c, ok := tx.Checkpoint(j.Scores); ok && c.Tenant == j.Tenant && c.Expired() {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CheckpointExpired, j.Scores, c.Reason)
	}
	return nil
}
