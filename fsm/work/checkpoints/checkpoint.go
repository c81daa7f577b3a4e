package checkpoints

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

const (
	// MaxPerJob bounds what is remembered of a job.
	MaxPerJob = 1000
	// MaxResumePoints bounds how many of the newest checkpoints of a job are offered to its next attempt.
	MaxResumePoints = 5
	// MaxDigest bounds the digest of contents, in bytes.
	MaxDigest = 128
)

// Checkpoint is a saved training state, or an exported model.
type Checkpoint struct {
	ID      ident.Checkpoint `cbor:"1,keyasint,omitempty"`
	Job     ident.Job        `cbor:"2,keyasint,omitempty"`
	Tenant  string           `cbor:"3,keyasint,omitempty"`
	Attempt uint32           `cbor:"4,keyasint,omitempty"`
	Token   uint64           `cbor:"5,keyasint,omitempty"`
	Rank    uint16           `cbor:"6,keyasint,omitempty"`
	Node    string           `cbor:"7,keyasint,omitempty"`
	Step    int64            `cbor:"8,keyasint,omitempty"`
	Path    string           `cbor:"9,keyasint,omitempty"`
	// Digest is that of the manifest, SizeBytes that of all files together.
	Digest    string `cbor:"10,keyasint,omitempty"`
	SizeBytes int64  `cbor:"11,keyasint,omitempty"`
	// Metrics is a JSON object, opaque here but for Score.
	Metrics   string `cbor:"12,keyasint,omitempty"`
	CreatedAt int64  `cbor:"13,keyasint,omitempty"`
	// State says where its files are.
	State v1.CheckpointState_Value `cbor:"14,keyasint,omitempty"`
	// Model: it was exported to be used, and nothing goes on from it.
	Model  bool `cbor:"15,keyasint,omitempty"`
	Pinned bool `cbor:"16,keyasint,omitempty"`
	// Score is greater the better its metric is (Retention.Score); 0: it has none.
	Score uint64 `cbor:"17,keyasint,omitempty"`
	// UploadedBytes is how many of SizeBytes the archive has, as far as is known.
	UploadedBytes int64 `cbor:"18,keyasint,omitempty"`
	// ContentDigest and StoredBytes are those of the copy in the archive, of one that is or was DURABLE.
	ContentDigest string `cbor:"19,keyasint,omitempty"`
	StoredBytes   int64  `cbor:"20,keyasint,omitempty"`
	// Reason says why it is in its state, where that is not plain.
	Reason reason.Reason `cbor:"21,keyasint,omitempty"`
	// Left lists the parts of it that are still to be removed; only of an EXPIRED one.
	Left Left `cbor:"22,keyasint,omitempty"`
}

// Left is a set of places that have something to be removed.
type Left uint8

// The places.
const (
	// LeftFiles: its node has its files.
	LeftFiles Left = 1 << iota
	// LeftArchived: the archive may have something under its key.
	LeftArchived
)

// Expired says whether it was given up.
func (c *Checkpoint) Expired() bool { return c.State == v1.CheckpointState_EXPIRED }

// Durable says whether all of it is in the archive.
func (c *Checkpoint) Durable() bool { return c.State == v1.CheckpointState_DURABLE }

// Uploads says whether it is being uploaded, and nothing is in the way.
func (c *Checkpoint) Uploads() bool { return c.State == v1.CheckpointState_UPLOADING && c.Reason == "" }

// Resumable says whether an attempt may go on from it.
func (c *Checkpoint) Resumable() bool { return !c.Expired() && !c.Model }

// SameFiles says whether two of a job are the same directory with the same manifest, which two nodes that share a file system
// have registered.
func (c *Checkpoint) SameFiles(o *Checkpoint) bool {
	return c.ID != o.ID && c.Job == o.Job && c.Path == o.Path && c.Digest == o.Digest
}

// ArchiveKey is the prefix under which the archive has it, and nothing else.
func (c *Checkpoint) ArchiveKey() string { return ArchiveKey(c.Tenant, c.Job, c.ID) }

// keyFolder is the first part of all keys.
const keyFolder = "checkpoints"

// ArchiveKey follows from its arguments alone, and has only characters that every archive takes. The name of a tenant that
// has others is replaced by a digest; no name looks like one.
func ArchiveKey(tenant string, job ident.Job, id ident.Checkpoint) string {
	return strings.Join([]string{keyFolder, tenantPart(tenant), job.String(), id.String()}, "/")
}

// hashedTenant begins the part of a key that stands for a tenant whose name is not plain.
const hashedTenant = "sha256-"

func tenantPart(tenant string) string {
	if plainPart(tenant) && !strings.HasPrefix(tenant, hashedTenant) {
		return tenant
	}
	sum := sha256.Sum256([]byte(tenant))
	return hashedTenant + hex.EncodeToString(sum[:16])
}

// plainPart says whether a text can be a part of a key as it is.
func plainPart(s string) bool {
	return s != "" && len(s) <= 64 && s[0] != '.' && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	})
}

// KeyIsOf says whether a key can be that of a checkpoint whose row is gone. No other checkpoint can have it.
func KeyIsOf(key string, id ident.Checkpoint) bool {
	parts := strings.Split(key, "/")
	if len(parts) != 4 || parts[0] != keyFolder || !plainPart(parts[1]) || parts[3] != id.String() {
		return false
	}
	_, ok := ident.ParseJob(parts[2])
	return ok
}

// AppendFields implements kernel.Hashed.
func (c *Checkpoint) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(c.ID)).Num(uint64(c.Job)).Text(c.Tenant).Num(uint64(c.Attempt)).Num(c.Token).Num(uint64(c.Rank))
	f = f.Text(c.Node).Int(c.Step).Text(c.Path).Text(c.Digest).Int(c.SizeBytes).Text(c.Metrics)
	f = f.Int(c.CreatedAt)
	f = f.Num(uint64(c.State)).Flag(c.Model).Flag(c.Pinned).Num(c.Score).Int(c.UploadedBytes)
	return f.Text(c.ContentDigest).Int(c.StoredBytes).Text(string(c.Reason)).Num(uint64(c.Left))
}

// Leftover is a copy that the archive may still have of a checkpoint that is no longer in the state.
type Leftover struct {
	ID ident.Checkpoint `cbor:"1,keyasint,omitempty"`
	// Node is the one that may have put it there.
	Node string `cbor:"2,keyasint,omitempty"`
	Key  string `cbor:"3,keyasint,omitempty"`
	// StoredBytes is its size there, as far as is known.
	StoredBytes int64 `cbor:"4,keyasint,omitempty"`
}

// AppendFields implements kernel.Hashed.
func (l *Leftover) AppendFields(f kernel.Fields) kernel.Fields {
	return f.Num(uint64(l.ID)).Text(l.Node).Text(l.Key).Int(l.StoredBytes)
}
