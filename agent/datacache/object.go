package datacache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/mindcoordinator/mind/archive"
)

// objectName is the name of the file of an Object.
const objectName = "object"

// object resolves an object of the archive. Its digest is its version, so a copy in the cache is used without a question to
// the archive.
func (c *Cache) object(want *Object) (*source, error) {
	if c.cfg.Archive == nil {
		return nil, faultf("node %s has no archive: set checkpoint_archive of its agent to that of the gateways", c.cfg.Node)
	}
	return &source{version: want.SHA256, files: []remoteFile{{
		name: objectName, size: want.Size, sha256: want.SHA256, strong: true,
		open: func(ctx context.Context, offset int64) (io.ReadCloser, int64, error) {
			body, err := c.cfg.Archive.Get(ctx, want.Key, offset)
			if errors.Is(err, archive.ErrNotFound) {
				err = missingf("the archive does not have it any more")
			}
			if err != nil || offset > 0 {
				return body, offset, err
			}
			return &whole{ReadCloser: body, want: want, sum: sha256.New()}, 0, nil
		},
	}}}, nil
}

// whole reads an object from its beginning. Content that differs from the digest would be the same in another try.
type whole struct {
	io.ReadCloser
	want *Object
	sum  hash.Hash
	read int64
}

// Read implements io.Reader.
func (w *whole) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.sum.Write(p[:n])
	w.read += int64(n)
	if errors.Is(err, io.EOF) && w.read >= w.want.Size && hex.EncodeToString(w.sum.Sum(nil)) != w.want.SHA256 {
		err = faultf("it is damaged in the archive: its content is not what was sent")
	}
	return n, err
}
