package checkpointverbs

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// settled is the outcome of one report.
type settled uint8

const (
	stale settled = iota
	duplicate
	applied
)

// ReportKind is the kind of a report about a checkpoint.
type ReportKind uint8

// The kinds of reports.
const (
	// ReportUpload: how far an upload is, why it does not go on, or that there is nothing to upload any more.
	ReportUpload ReportKind = iota + 1
	// ReportStored: all of it is in the archive.
	ReportStored
	// ReportFilesRemoved: its files are no longer on the node.
	ReportFilesRemoved
	// ReportArchivedRemoved: nothing is under its key in the archive any more.
	ReportArchivedRemoved
)

// ReportCheckpoints reports the work of one node on checkpoints.
type ReportCheckpoints struct {
	Node    string   `cbor:"1,keyasint,omitempty"`
	Reports []Report `cbor:"2,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (ReportCheckpoints) CommandNumber() uint16 { return 27 }

func init() { verbs.Add(lifecycle.Verb("ReportCheckpoints", reportCheckpoints, nil)) }

// Report is one event of a checkpoint.
type Report struct {
	ID   ident.Checkpoint `cbor:"1,keyasint,omitempty"`
	Kind ReportKind       `cbor:"2,keyasint,omitempty"`
	// Bytes that have arrived (ReportUpload), or that it takes in the archive (ReportStored).
	Bytes int64 `cbor:"3,keyasint,omitempty"`
	// ReportUpload. Error says why it does not go on; empty: it does. Gone: the files are not there, or are not those that were
	// registered.
	Error reason.Reason `cbor:"4,keyasint,omitempty"`
	Gone  bool          `cbor:"5,keyasint,omitempty"`
	// ReportStored. Key is the one under which the upload was ordered.
	Key    string `cbor:"6,keyasint,omitempty"`
	Digest string `cbor:"7,keyasint,omitempty"`
}

// ReportResult counts the outcomes of the reports. All of them are settled: none needs to be sent again.
type ReportResult struct {
	Applied int
	// Duplicate ones told what was known.
	Duplicate int
	// Stale ones are not of the node that has the order, or of no order. They changed nothing; but what they say may be in the
	// archive is removed from there.
	Stale int
}

func reportCheckpoints(tx *lifecycle.Tx, c *ReportCheckpoints) ReportResult {
	var counts [applied + 1]int
	for i := range c.Reports {
		counts[takeReport(tx, c.Node, &c.Reports[i])]++
	}
	return ReportResult{Applied: counts[applied], Duplicate: counts[duplicate], Stale: counts[stale]}
}

// takeReport believes a node only what it was told to do: with a checkpoint of its own, or with what another one that is gone
// has left in the archive.
func takeReport(tx *lifecycle.Tx, node string, r *Report) settled {
	c, ok := tx.Checkpoint(r.ID)
	switch {
	case !ok:
		return takeOfUnknown(tx, node, r)
	case r.Kind == ReportArchivedRemoved && checkpoints.MayRemove(node, c.Node, tx):
		return removed(tx, c, checkpoints.LeftArchived)
	case c.Node != node:
		return stale
	case r.Kind == ReportFilesRemoved:
		return removed(tx, c, checkpoints.LeftFiles)
	case r.Kind == ReportUpload:
		return uploading(tx, c, r)
	case r.Kind == ReportStored:
		return stored(tx, c, r)
	}
	return stale
}

// takeOfUnknown is about a checkpoint that is no longer in the state. A copy that comes into the archive afterwards is removed
// from there like one that was there before.
func takeOfUnknown(tx *lifecycle.Tx, node string, r *Report) settled {
	l, left := tx.Leftover(r.ID)
	switch {
	case left && r.Kind == ReportArchivedRemoved && checkpoints.MayRemove(node, l.Node, tx):
		checkpoints.DropLeftover(&tx.Tables, l)
		return applied
	case !left && r.Kind == ReportStored && r.ID < ident.Checkpoint(kernel.FirstID(tx.Index)) && checkpoints.KeyIsOf(r.Key, r.ID):
		checkpoints.PutLeftover(&tx.Tables, &checkpoints.Leftover{ID: r.ID, Node: tx.Entry.Intern(node), Key: r.Key, StoredBytes: max(r.Bytes, 0)})
		tx.EmitCheckpoint(&checkpoints.Checkpoint{ID: r.ID, Node: node}, tx.RemoversOf(node))
	}
	return stale
}

func removed(tx *lifecycle.Tx, c *checkpoints.Checkpoint, what checkpoints.Left) settled {
	if c.Left&what == 0 {
		return duplicate
	}
	changed := *c
	changed.Left &^= what
	if what == checkpoints.LeftArchived {
		changed.StoredBytes, changed.UploadedBytes = 0, 0
	}
	tx.ChangeCheckpoint(&changed)
	return applied
}

// uploading takes in how far an upload is.
func uploading(tx *lifecycle.Tx, c *checkpoints.Checkpoint, r *Report) settled {
	switch {
	case c.Expired() && !r.Gone:
		return archivedAfterAll(tx, c, 0)
	case c.Expired() || c.Durable():
		return duplicate
	case r.Gone:
		tx.Expire(c, reason.New(reason.FilesGone, c.Node, r.Error), 0)
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
	tx.MoveCheckpoint(c, &changed)
	if c.Uploads() {
		tx.Reconsider(c.Job) // It was kept because it got on.
	}
	return applied
}

// stored takes in that the archive has all of a checkpoint.
func stored(tx *lifecycle.Tx, c *checkpoints.Checkpoint, r *Report) settled {
	switch {
	case r.Key != c.ArchiveKey() || r.Digest == "" || len(r.Digest) > checkpoints.MaxDigest:
		return stale
	case c.Expired():
		return archivedAfterAll(tx, c, r.Bytes)
	case c.Durable() && c.ContentDigest == r.Digest:
		return duplicate
	case c.Durable():
		return stale
	}
	changed := *c
	changed.State, changed.Reason, changed.ContentDigest = v1.CheckpointState_DURABLE, "", r.Digest
	changed.UploadedBytes, changed.StoredBytes = max(c.SizeBytes, 0), max(r.Bytes, 0)
	tx.MoveCheckpoint(c, &changed)
	tx.Reconsider(c.Job)
	return applied
}

// archivedAfterAll is about one that was given up: what has come into the archive since is removed from there.
func archivedAfterAll(tx *lifecycle.Tx, c *checkpoints.Checkpoint, bytes int64) settled {
	if c.Left&checkpoints.LeftArchived == 0 {
		changed := *c
		changed.Left |= checkpoints.LeftArchived
		changed.StoredBytes = max(bytes, 0)
		tx.ChangeCheckpoint(&changed)
	}
	return stale
}
