package checkpoints

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"path"
	"path/filepath"
	"time"

	"github.com/mindcoordinator/mind/archive"
)

// Saved is a checkpoint in an archive.
type Saved struct {
	store archive.Store
	key   string
	m     manifest
	text  int64 // bytes of the manifest
}

// Digest returns the content digest.
func (s *Saved) Digest() string { return s.m.Digest }

// Registered returns the digest under which the checkpoint was registered.
func (s *Saved) Registered() string { return s.m.Registered }

// Size returns the size of its files.
func (s *Saved) Size() int64 { return s.m.size() }

// Stored returns the number of bytes that it takes in the archive.
func (s *Saved) Stored() int64 {
	total := s.text
	for _, size := range s.m.parts() {
		total += size
	}
	return total
}

// Files returns its files, sorted by path. The caller must not change them.
func (s *Saved) Files() []File { return s.m.Files }

// Flat returns its files with copies in place of links.
func (s *Saved) Flat() (flat []File) {
	for _, c := range Flat(s.m.Files) {
		f := c.File
		f.Path = c.Path
		flat = append(flat, f)
	}
	return flat
}

// Read reads one of its files from an offset on. Each part that is read from its start is compared with its digest.
func (s *Saved) Read(ctx context.Context, f File, offset int64) io.ReadCloser {
	return &reader{saved: s, ctx: ctx, file: f, at: offset}
}

// reader reads one file, one part after the other.
type reader struct {
	saved *Saved
	ctx   context.Context
	file  File
	at    int64

	part io.ReadCloser // nil: none is open
	end  int64         // of the open part
	sum  hash.Hash     // nil: the part was not opened at its start
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.part == nil {
		if r.at >= r.file.Size {
			return 0, io.EOF
		}
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	n, err := r.part.Read(p[:min(int64(len(p)), r.end-r.at)])
	r.at += int64(n)
	if r.sum != nil {
		r.sum.Write(p[:n])
	}
	if r.at == r.end {
		return n, r.finish()
	}
	if err == io.EOF {
		err = fmt.Errorf("%w: a part of %s is too short", ErrDamaged, r.file.Path)
	}
	return n, err
}

func (r *reader) open() error {
	size := r.saved.m.PartSize
	i := r.at / size
	part, err := r.saved.store.Get(r.ctx, r.saved.key+"/"+partsFolder+r.file.Parts[i], r.at-i*size)
	if err != nil {
		return err
	}
	r.part, r.end, r.sum = part, min((i+1)*size, r.file.Size), nil
	if r.at == i*size {
		r.sum = sha256.New()
	}
	return nil
}

func (r *reader) finish() error {
	_ = r.part.Close()
	r.part = nil
	i := (r.end - 1) / r.saved.m.PartSize
	if r.sum != nil && hex.EncodeToString(r.sum.Sum(nil)) != r.file.Parts[i] {
		return fmt.Errorf("%w: the contents of %s do not have their digest", ErrDamaged, r.file.Path)
	}
	return nil
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if r.part == nil {
		return nil
	}
	return r.part.Close()
}

// Tar writes the checkpoint as a tar archive in which all files have the same change time. After an error the output is
// useless.
func (s *Saved) Tar(ctx context.Context, to io.Writer, changed time.Time) error {
	w := tar.NewWriter(to)
	for _, f := range s.m.Files {
		header := &tar.Header{Name: f.Path, Size: f.Size, Mode: int64(f.Mode), ModTime: changed, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if f.Link != "" {
			target, err := filepath.Rel(filepath.FromSlash(path.Dir(f.Path)), filepath.FromSlash(f.Link))
			if err != nil {
				return err
			}
			header.Typeflag, header.Mode, header.Linkname = tar.TypeSymlink, 0o777, filepath.ToSlash(target)
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if f.Link != "" {
			continue
		}
		from := s.Read(ctx, f, 0)
		_, err := io.Copy(w, from)
		_ = from.Close()
		if err != nil {
			return err
		}
	}
	return w.Close()
}
