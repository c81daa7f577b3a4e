package apply

import (
	"fmt"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
)

// What becomes of checkpoints after they were registered: uploads, removals, retention.

// settled says what became of one report.
type settled uint8

const (
	stale settled = iota
	duplicate
	applied
)

func reportCheckpoints(tx *tx, c *checkpoints.ReportCheckpoints) any {
	var counts [applied + 1]int
	for i := range c.Reports {
		counts[tx.takeReport(c.Node, &c.Reports[i])]++
	}
	return checkpoints.ReportResult{Applied: counts[applied], Duplicate: counts[duplicate], Stale: counts[stale]}
}

// takeReport believes a node only what it was told to do: with a checkpoint of its own, or with what another one that is gone
// has left in the archive.
func (tx *tx) takeReport(node string, r *checkpoints.Report) settled {
	c, ok := tx.Checkpoint(r.ID)
	switch {
	case !ok:
		return tx.takeOfUnknown(node, r)
	case r.Kind == checkpoints.ReportArchivedRemoved && checkpoints.MayRemove(node, c.Node, tx):
		return tx.removed(c, checkpoints.LeftArchived)
	case c.Node != node:
		return stale
	case r.Kind == checkpoints.ReportFilesRemoved:
		return tx.removed(c, checkpoints.LeftFiles)
	case r.Kind == checkpoints.ReportUpload:
		return tx.uploading(c, r)
	case r.Kind == checkpoints.ReportStored:
		return tx.stored(c, r)
	}
	return stale
}

// takeOfUnknown is about a checkpoint that is no longer in the state. A copy that comes into the archive afterwards is removed
// from there like one that was there before.
func (tx *tx) takeOfUnknown(node string, r *checkpoints.Report) settled {
	l, left := tx.Leftover(r.ID)
	switch {
	case left && r.Kind == checkpoints.ReportArchivedRemoved && checkpoints.MayRemove(node, l.Node, tx):
		checkpoints.DropLeftover(&tx.Tables, l)
		return applied
	case !left && r.Kind == checkpoints.ReportStored && r.ID < ident.Checkpoint(kernel.FirstID(tx.index)) && checkpoints.KeyIsOf(r.Key, r.ID):
		checkpoints.PutLeftover(&tx.Tables, &checkpoints.Leftover{ID: r.ID, Node: tx.entry.Intern(node), Key: r.Key, StoredBytes: max(r.Bytes, 0)})
		tx.emitCheckpoint(&checkpoints.Checkpoint{ID: r.ID, Node: node}, tx.removersOf(node))
	}
	return stale
}

func (tx *tx) removed(c *checkpoints.Checkpoint, what checkpoints.Left) settled {
	if c.Left&what == 0 {
		return duplicate
	}
	changed := *c
	changed.Left &^= what
	if what == checkpoints.LeftArchived {
		changed.StoredBytes, changed.UploadedBytes = 0, 0
	}
	tx.changeCheckpoint(&changed)
	return applied
}

// uploading takes in how far an upload is.
func (tx *tx) uploading(c *checkpoints.Checkpoint, r *checkpoints.Report) settled {
	switch {
	case c.Expired() && !r.Gone:
		return tx.archivedAfterAll(c, 0)
	case c.Expired() || c.Durable():
		return duplicate
	case r.Gone:
		tx.expire(c, reason.New(reason.FilesGone, c.Node, r.Error), 0)
		return applied
	}
	changed := *c
	changed.State, changed.Reason = v1.CheckpointState_UPLOADING, r.Error
	changed.UploadedBytes = min(max(r.Bytes, 0), max(c.SizeBytes, 0))
	if changed == *c {
		return duplicate
	}
	if c.State == changed.State && c.Reason == changed.Reason {
		checkpoints.Put(&tx.Tables, &changed) // Nobody's orders depend on how far it is.
		return applied
	}
	tx.moveCheckpoint(c, &changed)
	if c.Uploads() {
		tx.reconsider(c.Job) // It was kept because it got on.
	}
	return applied
}

// stored takes in that the archive has all of a checkpoint.
func (tx *tx) stored(c *checkpoints.Checkpoint, r *checkpoints.Report) settled {
	switch {
	case r.Key != c.ArchiveKey() || r.Digest == "" || len(r.Digest) > checkpoints.MaxDigest:
		return stale
	case c.Expired():
		return tx.archivedAfterAll(c, r.Bytes)
	case c.Durable() && c.ContentDigest == r.Digest:
		return duplicate
	case c.Durable():
		return stale
	}
	changed := *c
	changed.State, changed.Reason, changed.ContentDigest = v1.CheckpointState_DURABLE, "", r.Digest
	changed.UploadedBytes, changed.StoredBytes = max(c.SizeBytes, 0), max(r.Bytes, 0)
	tx.moveCheckpoint(c, &changed)
	tx.reconsider(c.Job)
	return applied
}

// archivedAfterAll is about one that was given up: what has come into the archive since is removed from there.
func (tx *tx) archivedAfterAll(c *checkpoints.Checkpoint, bytes int64) settled {
	if c.Left&checkpoints.LeftArchived == 0 {
		changed := *c
		changed.Left |= checkpoints.LeftArchived
		changed.StoredBytes = max(bytes, 0)
		tx.changeCheckpoint(&changed)
	}
	return stale
}

// moveCheckpoint changes the state of a checkpoint. A move that the table does not allow is a mistake of this package.
func (tx *tx) moveCheckpoint(from, to *checkpoints.Checkpoint) {
	if from.State != to.State && !checkpoints.CanMove(from.State, to.State) {
		panic(fmt.Sprintf("fsm: %s: no checkpoint moves from %s to %s", from.ID, from.State, to.State))
	}
	tx.changeCheckpoint(to)
}

// changeCheckpoint puts a changed row in, and says so.
func (tx *tx) changeCheckpoint(c *checkpoints.Checkpoint) {
	checkpoints.Put(&tx.Tables, c)
	var more []string
	if c.Left != 0 {
		more = tx.removersOf(c.Node)
	}
	tx.emitCheckpoint(c, more)
}

// expire gives a checkpoint up. What the archive may have of it is to be removed, and files if left says so.
func (tx *tx) expire(c *checkpoints.Checkpoint, why reason.Reason, left checkpoints.Left) {
	changed := *c
	changed.State, changed.Reason, changed.Left = v1.CheckpointState_EXPIRED, why, left
	if tx.mayBeArchived(c) {
		changed.Left |= checkpoints.LeftArchived
	}
	tx.moveCheckpoint(c, &changed)
	for o := range tx.CheckpointsOf(c.Job) {
		if o.ID != c.ID && o.Path == c.Path && o.Left&checkpoints.LeftFiles != 0 {
			tx.emitCheckpoint(o, nil) // Its files may have stayed because these were wanted.
		}
	}
	tx.unrefer(c.Job, c.ID)
}

// reconsider has the checkpoints of a job looked at when the command is done: some may have to go.
func (tx *tx) reconsider(job ident.Job) {
	if !slices.Contains(tx.retain, job) {
		tx.retain = append(tx.retain, job)
	}
}

// released is called when a job does not need any more what it needed.
func (tx *tx) released(old, j *work.Job) {
	was, is := old.Needs(), j.Needs()
	if was == is {
		return
	}
	for _, id := range was {
		if c, ok := tx.Checkpoint(id); ok {
			tx.reconsider(c.Job)
		}
	}
}

// applyRetention gives up what the jobs that were reconsidered do not keep.
func (tx *tx) applyRetention() {
	for _, id := range tx.retain {
		j, ok := tx.Job(id)
		if !ok {
			continue
		}
		needed := func(c ident.Checkpoint) bool { return c == j.LastCheckpoint || tx.Needed(c) }
		for _, c := range checkpoints.Replaced(slices.Collect(tx.CheckpointsOf(id)), needed) {
			tx.expire(c, reason.New(reason.ReplacedByNewer), 0)
		}
		for _, c := range j.Retention.Excess(slices.Collect(tx.CheckpointsOf(id)), needed) {
			tx.expire(c, reason.New(reason.NotRetained, j.Retention.Keep, j.Retention.Best), checkpoints.LeftFiles)
		}
	}
	tx.retain = nil
}
