package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/durable"
)

// directory is a store in a shared directory.
type directory struct{ root string }

func (d *directory) path(key string) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	return filepath.Join(d.root, filepath.FromSlash(key)), nil
}

// Put writes a temporary file first. Its name begins with a dot, which no part of a key does, so it is never listed or
// read.
func (d *directory) Put(ctx context.Context, key string, body io.Reader, size int64) error {
	path, err := d.path(key)
	if err != nil {
		return err
	}
	file, err := d.create(path)
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	defer file.Discard()
	n, err := io.Copy(file, &stoppable{ctx, body})
	if err == nil && n != size {
		err = fmt.Errorf("got %d bytes instead of %d", n, size)
	}
	if err == nil {
		err = file.Commit()
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// create makes the directory of a file and starts the file. A Delete may remove the directory in between, while it is empty.
func (d *directory) create(path string) (file *durable.File, err error) {
	for range 10 {
		if err = d.makeDirs(filepath.Dir(path)); err == nil {
			file, err = durable.Create(path, 0o640)
		}
		if _, missing := os.Stat(d.root); missing != nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return file, err
}

// makeDirs makes a directory and its parents, durably. It does not make the root: an unmounted share must not look like
// an empty one.
func (d *directory) makeDirs(dir string) error {
	if _, err := os.Stat(dir); err == nil || dir == d.root || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.makeDirs(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// Get opens the file.
func (d *directory) Get(_ context.Context, key string, offset int64) (io.ReadCloser, error) {
	path, err := d.path(key)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(d.root); err != nil {
			// The share is not mounted. The error also matches ErrNotExist, which does not matter: ErrNotFound is another
			// error.
			return nil, fmt.Errorf("the directory of the archive: %w", err)
		}
		return nil, fmt.Errorf("get %s: %w", key, ErrNotFound)
	}
	if err == nil {
		if _, err = file.Seek(offset, io.SeekStart); err != nil {
			_ = file.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return file, nil
}

// List walks the directory of the prefix.
func (d *directory) List(ctx context.Context, prefix string) ([]Object, error) {
	start := d.root
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		if err := checkKey(prefix[:i]); err != nil {
			return nil, err
		}
		start = filepath.Join(d.root, filepath.FromSlash(prefix[:i]))
	}
	var found []Object
	err := filepath.WalkDir(start, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed during the walk, or never existed
		case err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), "."):
			return err
		}
		rel, err := filepath.Rel(d.root, path)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(rel)
		if !strings.HasPrefix(key, prefix) {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			found = append(found, Object{Key: key, Size: info.Size(), Modified: info.ModTime()})
		}
		return err
	})
	if err == nil {
		_, err = os.Stat(d.root)
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	slices.SortFunc(found, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
	return found, nil
}

// Delete removes the file, and the directories that it leaves empty.
func (d *directory) Delete(_ context.Context, key string) error {
	path, err := d.path(key)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	d.prune(filepath.Dir(path))
	return nil
}

// prune removes a directory and its parents, as long as they are empty.
func (d *directory) prune(dir string) {
	for ; len(dir) > len(d.root) && strings.HasPrefix(dir, d.root); dir = filepath.Dir(dir) {
		if unix.Rmdir(dir) != nil {
			return
		}
	}
}

// Sweep removes temporary files of killed writers in a directory and below.
func (d *directory) Sweep(dir string) error {
	path, err := d.path(dir)
	if err != nil {
		return err
	}
	err = filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = durable.Sweep(path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sweep %s: %w", dir, err)
	}
	d.prune(path)
	return nil
}

// stoppable is a reader that fails when its context ends.
type stoppable struct {
	ctx  context.Context
	from io.Reader
}

func (s *stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.from.Read(p)
}
