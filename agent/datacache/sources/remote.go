package sources

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

// Remote resolves a checkpoint of another node.
func (r *Resolver) Remote(ctx context.Context, from *Remote) (*Source, error) {
	files, err := from.Files(ctx)
	if err != nil {
		return nil, err
	}
	s := &Source{}
	sum := sha256.New()
	for _, f := range files {
		fmt.Fprintf(sum, "%d:%s %d %s\n", len(f.Name), f.Name, f.Size, f.Version)
		s.Files = append(s.Files, File{
			Name: f.Name, Size: f.Size, Strong: true,
			Open: func(ctx context.Context, offset int64) (io.ReadCloser, int64, error) {
				body, err := f.Open(ctx, offset)
				return body, offset, err
			},
		})
	}
	if len(s.Files) == 0 {
		return nil, missingf("it contains no file")
	}
	s.Version = hex.EncodeToString(sum.Sum(nil))
	return s, checkNames(s.Files)
}
