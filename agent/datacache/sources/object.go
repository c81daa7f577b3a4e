package sources

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

// Object is an object in the archive of checkpoints.
type Object struct {
	// Key is its key, and SHA256 the digest of its content.
	Key, SHA256 string
	Size        int64
}

// Object resolves an object of the archive. Its digest is its version, so a copy in the cache is used without a question to
// the archive.
func (r *Resolver) Object(want *Object) (*Source, error) {
	if r.cfg.Archive == nil {
		return nil, Faultf("node %s has no archive: set checkpoint_archive of its agent to that of the gateways", r.cfg.Node)
	}
	return &Source{Version: want.SHA256, Files: []File{{
		Name: objectName, Size: want.Size, SHA256: want.SHA256, Strong: true,
		Open: func(ctx context.Context, offset int64) (io.ReadCloser, int64, error) {
			body, err := r.cfg.Archive.Get(ctx, want.Key, offset)
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
		err = Faultf("it is damaged in the archive: its content is not what was sent")
	}
	return n, err
}
