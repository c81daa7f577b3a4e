package upload

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/archive/uploads"
)

// look returns what is at a path, without its digest. It returns false for what is not there: git lists files that were removed.
func look(root *os.Root, path string) (f uploads.File, there bool, err error) {
	info, err := root.Lstat(filepath.FromSlash(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, false, nil
	case err != nil:
		return f, false, fmt.Errorf("look at %q: %w", path, err)
	}
	f = uploads.File{Path: path}
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		if f.Link, err = root.Readlink(filepath.FromSlash(path)); err != nil {
			return f, false, fmt.Errorf("read the link %q: %w", path, err)
		}
		return f, true, uploads.CheckLink(path, f.Link)
	case !mode.IsRegular():
		return f, false, fmt.Errorf("%q is neither a file nor a link: leave it out with .mindignore", path)
	default:
		f.Size, f.Executable = info.Size(), mode&0o100 != 0
	}
	return f, true, nil
}

// open opens a file without following a link that took its place.
func open(root *os.Root, path string) (*os.File, fs.FileInfo, error) {
	file, err := root.OpenFile(filepath.FromSlash(path), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("read %q: %w", path, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = changed(path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

func changed(path string) error {
	return fmt.Errorf("%q changed while it was read: submit again when nothing writes it, or leave it out with .mindignore", path)
}

// digest fills in the pieces of a file.
func digest(root *os.Root, f *uploads.File) error {
	file, before, err := open(root, f.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	piece := make([]byte, min(uploads.PieceSize, f.Size))
	for at := int64(0); at < f.Size; at += uploads.PieceSize {
		part := piece[:min(uploads.PieceSize, f.Size-at)]
		if _, err := io.ReadFull(file, part); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return changed(f.Path)
		} else if err != nil {
			return fmt.Errorf("read %q: %w", f.Path, err)
		}
		f.Pieces = append(f.Pieces, uploads.Sum(part))
	}
	after, err := file.Stat()
	if err != nil {
		return fmt.Errorf("read %q: %w", f.Path, err)
	}
	if before.Size() != f.Size || after.Size() != f.Size || !before.ModTime().Equal(after.ModTime()) {
		return changed(f.Path)
	}
	return nil
}
