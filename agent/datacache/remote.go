package datacache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// Remote is a checkpoint on another node.
type Remote struct {
	// Files lists its files. It returns an error made by Refused if another try does not help.
	Files func(context.Context) ([]RemoteFile, error)
}

// RemoteFile is a file of a Remote.
type RemoteFile struct {
	// Name is relative, with slashes.
	Name string
	Size int64
	// Version changes with the contents.
	Version string
	// Open reads this version, and no other, from an offset on.
	Open func(ctx context.Context, offset int64) (io.ReadCloser, error)
}

// Refused returns an error which means that a source is not available, and that another try does not help.
func Refused(format string, args ...any) error { return missingf(format, args...) }

// Broken reports whether an error of Fetch means that the source could not be reached, or that the connection broke, in
// several tries. Another try later may help.
func Broken(err error) bool { return transient(err) }

// remote resolves a checkpoint of another node.
func (c *Cache) remote(ctx context.Context, r *Remote) (*source, error) {
	files, err := r.Files(ctx)
	if err != nil {
		return nil, err
	}
	s := &source{}
	sum := sha256.New()
	for _, f := range files {
		fmt.Fprintf(sum, "%d:%s %d %s\n", len(f.Name), f.Name, f.Size, f.Version)
		s.files = append(s.files, remoteFile{
			name: f.Name, size: f.Size, strong: true,
			open: func(ctx context.Context, offset int64) (io.ReadCloser, int64, error) {
				body, err := f.Open(ctx, offset)
				return body, offset, err
			},
		})
	}
	if len(s.files) == 0 {
		return nil, missingf("it contains no file")
	}
	s.version = hex.EncodeToString(sum.Sum(nil))
	return s, checkNames(s.files)
}
