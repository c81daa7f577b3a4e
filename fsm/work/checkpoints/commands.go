package checkpoints

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// Delete takes a checkpoint of a tenant out of the state. The files are the user's, and stay; the copy in the archive
// is removed.
type Delete struct {
	Tenant string           `cbor:"1,keyasint,omitempty"`
	ID     ident.Checkpoint `cbor:"2,keyasint,omitempty"`
	Actor  *access.Actor    `cbor:"3,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (Delete) CommandNumber() uint16 { return 18 }

// Pin keeps a checkpoint of a tenant whatever its job's retention says, or ends that.
type Pin struct {
	Tenant string           `cbor:"1,keyasint,omitempty"`
	ID     ident.Checkpoint `cbor:"2,keyasint,omitempty"`
	// Off: it is not to be kept any longer.
	Off   bool          `cbor:"3,keyasint,omitempty"`
	Actor *access.Actor `cbor:"4,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (Pin) CommandNumber() uint16 { return 28 }

// Result is the checkpoint as it is after the command, or was before it was deleted; or why nothing was done.
type Result struct {
	Checkpoint *Checkpoint
	Refusal    *kernel.Refusal
}

// ReportKind is what a report tells of a checkpoint.
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

// ReportCheckpoints is what one node did with checkpoints.
type ReportCheckpoints struct {
	Node    string   `cbor:"1,keyasint,omitempty"`
	Reports []Report `cbor:"2,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (ReportCheckpoints) CommandNumber() uint16 { return 27 }

// Report is what happened to one checkpoint.
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

// ReportResult counts what became of the reports. All of them are settled: none needs to be sent again.
type ReportResult struct {
	Applied int
	// Duplicate ones told what was known.
	Duplicate int
	// Stale ones are not of the node that has the order, or of no order. They changed nothing; but what they say may be in the
	// archive is removed from there.
	Stale int
}
