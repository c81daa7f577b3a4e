package uploads

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Unpack writes the files of a tree into an empty directory. open opens a pack, by its number in Packs. All content is
// compared with its digests. Links come last, so that no file is written through one.
func (s *Stored) Unpack(ctx context.Context, dir string, open func(pack int) (*os.File, error)) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	u := &unpacking{ctx: ctx, root: root, open: open, packs: map[int]*os.File{}, where: map[string]place{}, made: map[string]bool{".": true}}
	defer func() { err = errors.Join(err, u.close()) }()
	for i, need := range s.Needs() {
		u.where[need.Sum] = s.Places[i]
	}
	for i := range s.Files {
		if f := &s.Files[i]; f.Link == "" {
			if err := u.file(f); err != nil {
				return fmt.Errorf("write %q: %w", f.Path, err)
			}
		}
	}
	for i := range s.Files {
		if f := &s.Files[i]; f.Link != "" {
			if err := u.link(f); err != nil {
				return fmt.Errorf("write the link %q: %w", f.Path, err)
			}
		}
	}
	return nil
}

type unpacking struct {
	ctx   context.Context
	root  *os.Root
	open  func(pack int) (*os.File, error)
	packs map[int]*os.File
	where map[string]place
	made  map[string]bool // folders
	piece []byte
}

func (u *unpacking) close() error { return errors.Join(u.root.Close(), u.forget(0)) }

// mostOpen is how many packs are open at a time.
const mostOpen = 64

// forget closes the open packs if there are more than some.
func (u *unpacking) forget(most int) (err error) {
	if len(u.packs) <= most {
		return nil
	}
	for _, file := range u.packs {
		err = errors.Join(err, file.Close())
	}
	clear(u.packs)
	return err
}

func (u *unpacking) folder(of string) error {
	dir := path.Dir(of)
	if u.made[dir] {
		return nil
	}
	u.made[dir] = true
	return u.root.MkdirAll(filepath.FromSlash(dir), 0o755)
}

func (u *unpacking) file(f *File) error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	if err := u.folder(f.Path); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if f.Executable {
		mode = 0o755
	}
	to, err := u.root.OpenFile(filepath.FromSlash(f.Path), os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	for n := range f.Pieces {
		if err = u.copy(to, f, n); err != nil {
			break
		}
	}
	return errors.Join(err, to.Close())
}

func (u *unpacking) copy(to io.Writer, f *File, n int) error {
	at := u.where[f.Pieces[n]]
	pack := u.packs[at.Pack]
	if pack == nil {
		err := u.forget(mostOpen - 1)
		if err != nil {
			return err
		}
		if pack, err = u.open(at.Pack); err != nil {
			return err
		}
		u.packs[at.Pack] = pack
	}
	size := f.pieceSize(n)
	if int64(cap(u.piece)) < size {
		u.piece = make([]byte, size)
	}
	piece := u.piece[:size]
	if _, err := pack.ReadAt(piece, at.At); err != nil {
		return fmt.Errorf("read its content: %w", err)
	}
	if Sum(piece) != f.Pieces[n] {
		return errors.New("its content differs from what was sent: it is damaged in the archive")
	}
	_, err := to.Write(piece)
	return err
}

func (u *unpacking) link(f *File) error {
	if err := u.folder(f.Path); err != nil {
		return err
	}
	return u.root.Symlink(f.Link, filepath.FromSlash(f.Path))
}
