package checkpoints

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/durable"
)

// Digest returns the content digest of a checkpoint in a tar archive.
func Digest(from io.Reader) (string, error) {
	return untar(from, func(_ File, body io.Reader) error {
		_, err := io.Copy(io.Discard, body)
		return err
	})
}

// Extract extracts a checkpoint from a tar archive into a new directory, which is created completely or not at all. The
// archive is not trusted: nothing is written outside of the directory. digest is the required content digest.
func Extract(from io.Reader, dir, digest string) (err error) {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s is there already: name a new directory", dir), err)
	}
	if err := durable.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	aside, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(aside))
		}
	}()
	root, err := os.OpenRoot(aside)
	if err != nil {
		return err
	}
	defer root.Close()
	var links []File
	got, err := untar(from, func(f File, body io.Reader) error {
		if f.Link != "" {
			links = append(links, f) // made last, so that no file is written through a link
			return nil
		}
		return extract(root, f, body)
	})
	switch {
	case err != nil:
		return err
	case got != digest:
		return errors.New("what arrived does not have the digest of the checkpoint: try again")
	}
	for _, f := range links {
		if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
			return err
		}
		target, err := filepath.Rel(path.Dir(f.Path), f.Link)
		if err == nil {
			err = root.Symlink(target, f.Path)
		}
		if err != nil {
			return err
		}
	}
	if err := os.Chmod(aside, 0o755); err != nil {
		return err
	}
	return durable.RenameTree(aside, dir)
}

// extract writes one file into the directory.
func extract(root *os.Root, f File, body io.Reader) error {
	if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
		return err
	}
	file, err := root.OpenFile(f.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(f.Mode)&0o777)
	if err != nil {
		return err
	}
	if _, err = io.Copy(file, body); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// untar visits the files of a tar archive, and returns the content digest. A visitor must read the whole file.
func untar(from io.Reader, visit func(f File, body io.Reader) error) (string, error) {
	var files []File
	archive := tar.NewReader(from)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("the archive of the checkpoint is not complete: %w", err)
		}
		f := File{Path: h.Name, Size: h.Size, Mode: uint32(h.Mode & 0o777)}
		switch {
		case !safe(h.Name) || len(files) == maxFiles:
			return "", fmt.Errorf("the archive of the checkpoint has a file %.200q, whose name is not safe", h.Name)
		case h.Typeflag == tar.TypeSymlink:
			f = File{Path: h.Name, Link: path.Join(path.Dir(h.Name), h.Linkname)}
			if path.IsAbs(h.Linkname) || !safe(f.Link) {
				return "", fmt.Errorf("the archive of the checkpoint has a link %.200q that leads out of it", h.Name)
			}
		case h.Typeflag != tar.TypeReg:
			return "", fmt.Errorf("the archive of the checkpoint has %.200q, which is neither a file nor a link", h.Name)
		}
		sum := sha256.New()
		if err := visit(f, io.TeeReader(archive, sum)); err != nil {
			return "", err
		}
		if f.Link == "" {
			f.SHA256 = hex.EncodeToString(sum.Sum(nil))
		}
		files = append(files, f)
	}
	// Bytes after the end mark belong to the archive, too: a writer that is not read to its end fails.
	if _, err := io.Copy(io.Discard, from); err != nil {
		return "", fmt.Errorf("the archive of the checkpoint is not complete: %w", err)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return digestOf(files), checkFiles(files)
}
