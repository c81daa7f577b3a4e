package sources

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/checkpoints"
)

// Checkpoint is a checkpoint in the archive.
type Checkpoint struct {
	// Key is its key in the archive; Digest is its content digest.
	Key, Digest string
}

// Checkpoint resolves a checkpoint in the archive. Links in it become copies.
func (r *Resolver) Checkpoint(ctx context.Context, want *Checkpoint) (*Source, error) {
	if r.cfg.Archive == nil {
		return nil, Faultf("node %s has no archive of checkpoints: set checkpoint_archive of its agent", r.cfg.Node)
	}
	saved, err := checkpoints.Open(ctx, r.cfg.Archive, want.Key)
	switch {
	case errors.Is(err, archive.ErrNotFound):
		return nil, missingf("the archive of checkpoints does not have it any more")
	case errors.Is(err, checkpoints.ErrDamaged):
		return nil, missingf("%v", err)
	case err != nil:
		return nil, fmt.Errorf("node %s cannot read the archive of checkpoints: %w", r.cfg.Node, err)
	case want.Digest != "" && saved.Digest() != want.Digest:
		return nil, Faultf("the archive of checkpoints has another one in its place")
	}
	s := &Source{Version: saved.Digest(), Archived: true}
	for _, f := range saved.Flat() {
		s.Files = append(s.Files, File{
			Name: f.Path, Size: f.Size, SHA256: f.SHA256, Strong: true,
			Open: func(ctx context.Context, offset int64) (io.ReadCloser, int64, error) {
				return saved.Read(ctx, f, offset), offset, nil
			},
		})
	}
	if len(s.Files) == 0 {
		return nil, missingf("it contains no file")
	}
	return s, checkNames(s.Files)
}
