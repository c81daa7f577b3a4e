package lifecycle

import (
	"fmt"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
)

// MoveCheckpoint changes the state of a checkpoint. A move that the table does not allow is a mistake of this package.
func (tx *Tx) MoveCheckpoint(from, to *checkpoints.Checkpoint) {
	if from.State != to.State && !checkpoints.CanMove(from.State, to.State) {
		panic(fmt.Sprintf("fsm: %s: no checkpoint moves from %s to %s", from.ID, from.State, to.State))
	}
	tx.ChangeCheckpoint(to)
}

// ChangeCheckpoint puts a changed row in, and says so.
func (tx *Tx) ChangeCheckpoint(c *checkpoints.Checkpoint) {
	checkpoints.Put(&tx.Tables, c)
	var more []string
	if c.Left != 0 {
		more = tx.RemoversOf(c.Node)
	}
	tx.EmitCheckpoint(c, more)
}

// Expire gives a checkpoint up. Its copy in the archive is to be removed, and its files if left says so.
func (tx *Tx) Expire(c *checkpoints.Checkpoint, why reason.Reason, left checkpoints.Left) {
	changed := *c
	changed.State, changed.Reason, changed.Left = v1.CheckpointState_EXPIRED, why, left
	if tx.mayBeArchived(c) {
		changed.Left |= checkpoints.LeftArchived
	}
	tx.MoveCheckpoint(c, &changed)
	for o := range tx.CheckpointsOf(c.Job) {
		if o.ID != c.ID && o.Path == c.Path && o.Left&checkpoints.LeftFiles != 0 {
			tx.EmitCheckpoint(o, nil) // Its files may have stayed because these were wanted.
		}
	}
	tx.Unrefer(c.Job, c.ID)
}

// Reconsider has the checkpoints of a job looked at when the command is done: some may have to go.
func (tx *Tx) Reconsider(job ident.Job) {
	if !slices.Contains(tx.retain, job) {
		tx.retain = append(tx.retain, job)
	}
}

// released is called when a job does not need any more what it needed.
func (tx *Tx) released(old, j *work.Job) {
	was, is := old.Needs(), j.Needs()
	if was == is {
		return
	}
	for _, id := range was {
		if c, ok := tx.Checkpoint(id); ok {
			tx.Reconsider(c.Job)
		}
	}
}

// applyRetention gives up what the jobs that were reconsidered do not keep.
func (tx *Tx) applyRetention() {
	for _, id := range tx.retain {
		j, ok := tx.Job(id)
		if !ok {
			continue
		}
		needed := func(c ident.Checkpoint) bool { return c == j.LastCheckpoint || tx.Needed(c) }
		for _, c := range checkpoints.Replaced(slices.Collect(tx.CheckpointsOf(id)), needed) {
			tx.Expire(c, reason.New(reason.ReplacedByNewer), 0)
		}
		for _, c := range j.Retention.Excess(slices.Collect(tx.CheckpointsOf(id)), needed) {
			tx.Expire(c, reason.New(reason.NotRetained, j.Retention.Keep, j.Retention.Best), checkpoints.LeftFiles)
		}
	}
	tx.retain = nil
}

// Discard takes a checkpoint out of the state. A copy in the archive stays there as a leftover.
func (tx *Tx) Discard(c *checkpoints.Checkpoint) {
	checkpoints.Drop(&tx.Tables, c)
	if tx.mayBeArchived(c) {
		checkpoints.PutLeftover(&tx.Tables, &checkpoints.Leftover{ID: c.ID, Node: c.Node, Key: c.ArchiveKey(), StoredBytes: c.StoredBytes})
		tx.EmitCheckpoint(c, tx.RemoversOf(c.Node))
	}
}

// mayBeArchived says whether there may be anything in the archive under the key of a checkpoint. An upload is ordered before
// anything is heard of it.
func (tx *Tx) mayBeArchived(c *checkpoints.Checkpoint) bool {
	switch c.State {
	case v1.CheckpointState_UPLOADING, v1.CheckpointState_DURABLE:
		return true
	case v1.CheckpointState_EXPIRED:
		return c.Left&checkpoints.LeftArchived != 0
	}
	return tx.HasArchive(c.Node)
}

// RemoversOf are the nodes that may have to remove what a node has put into the archive.
func (tx *Tx) RemoversOf(node string) []string {
	if tx.HasArchive(node) && !tx.Gone(node) {
		return nil
	}
	return tx.Archivists()
}

// EmitCheckpoint tells of a change, and whose orders it changes: those of its node, of those that share its directory, and of
// some more.
func (tx *Tx) EmitCheckpoint(c *checkpoints.Checkpoint, more []string) {
	nodes := append([]string{c.Node}, more...)
	for o := range tx.AtPath(c.Path) {
		if o.Job == c.Job && !slices.Contains(nodes, o.Node) {
			nodes = append(nodes, o.Node)
		}
	}
	tx.Emit(event.Event{Topic: event.TopicCheckpoint, Tenant: c.Tenant, Job: c.Job, Attempt: c.Attempt, Checkpoint: c.ID, Nodes: nodes})
}

// LastOf is the newest checkpoint of a job that an attempt can go on from; 0: there is none.
func (tx *Tx) LastOf(job ident.Job) ident.Checkpoint {
	var last ident.Checkpoint
	for c := range tx.CheckpointsOf(job) {
		if c.Resumable() {
			last = c.ID
		}
	}
	return last
}

// Unrefer lets a job forget a checkpoint that it cannot go on from any more.
func (tx *Tx) Unrefer(id ident.Job, c ident.Checkpoint) {
	j, ok := tx.Job(id)
	if !ok || j.LastCheckpoint != c && j.ResumeFrom != c {
		return
	}
	changed := *j
	if j.LastCheckpoint == c {
		changed.LastCheckpoint = tx.LastOf(j.ID)
	}
	if j.ResumeFrom == c {
		changed.ResumeFrom = 0
	}
	tx.SaveJob(j, &changed)
	tx.EmitJob(&changed, changed.State)
}
