package jobview

import (
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mindcoordinator/mind/api/numbers"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
)

// archiveScheme begins the URI of a checkpoint in the archive.
const archiveScheme = "mind://"

// Checkpoint returns a checkpoint as users see it.
func Checkpoint(c *checkpoints.Checkpoint) *v1.Checkpoint {
	out := &v1.Checkpoint{
		CheckpointId:   c.ID.String(),
		JobId:          c.Job.String(),
		Attempt:        int32(c.Attempt),
		Step:           c.Step,
		Path:           c.Path,
		NodeId:         c.Node,
		ManifestDigest: c.Digest,
		SizeBytes:      c.SizeBytes,
		CreatedAt:      call.Time(c.CreatedAt),
		State:          c.State,
		Kind:           v1.CheckpointKind_CHECKPOINT,
		Pinned:         c.Pinned,
		UploadedBytes:  c.UploadedBytes,
		ContentDigest:  c.ContentDigest,
		Reason:         words.Of(c.Reason),
	}
	if c.Model {
		out.Kind = v1.CheckpointKind_MODEL
	}
	if c.Durable() {
		out.Uri, out.ArchiveKey = archiveScheme+c.ID.String(), c.ArchiveKey()
	}
	out.Metrics = Metrics(c.Metrics)
	return out
}

// Metrics parses a JSON object that a program reported; nil if the text is no object.
func Metrics(text string) *structpb.Struct {
	if text == "" {
		return nil
	}
	out, err := numbers.ParseObject([]byte(text))
	if err != nil {
		return nil
	}
	return out
}
