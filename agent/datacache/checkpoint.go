package datacache

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/checkpoints"
)

// checkpoint resolves a checkpoint in the archive. Links in it become copies.
func (c *Cache) checkpoint(ctx context.Context, want *Checkpoint) (*source, error) {
	if c.cfg.Archive == nil {
		return nil, faultf("node %s has no archive of checkpoints: set checkpoint_archive of its agent", c.cfg.Node)
	}
	saved, err := checkpoints.Open(ctx, c.cfg.Archive, want.Key)
	switch {
	case errors.Is(err, archive.ErrNotFound):
		return nil, missingf("the archive of checkpoints does not have it any more")
	case errors.Is(err, checkpoints.ErrDamaged):
		return nil, missingf("%v", err)
	case err != nil:
		return nil, fmt.Errorf("node %s cannot read the archive of checkpoints: %w", c.cfg.Node, err)
	case want.Digest != "" && saved.Digest() != want.Digest:
		return nil, faultf("the archive of checkpoints has another one in its place")
	}
	s := &source{version: saved.Digest(), archived: true}
	for _, f := range saved.Flat() {
		s.files = append(s.files, remoteFile{
			name: f.Path, size: f.Size, sha256: f.SHA256, strong: true,
			open: func(ctx context.Context, offset int64) (io.ReadCloser, int64, error) {
				return saved.Read(ctx, f, offset), offset, nil
			},
		})
	}
	if len(s.files) == 0 {
		return nil, missingf("it contains no file")
	}
	return s, checkNames(s.files)
}
