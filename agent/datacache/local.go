package datacache

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxCounted is how many entries of a local directory are looked at; of a larger one nothing is said but that it is there.
const maxCounted = 10_000

// local finds a file or directory of the node.
func (c *Cache) local(ctx context.Context, path string) (*source, error) {
	if !filepath.IsAbs(path) {
		return nil, faultf("it is not an absolute path: begin with /, or with hf://, s3://, https:// and so on for what is elsewhere")
	}
	if strings.ContainsRune(path, 0) {
		return nil, faultf("it has a NUL character")
	}
	// A link counts as what it leads to. What lies outside is like what is not there: nobody is to find out about it.
	real, err := filepath.EvalSymlinks(path)
	missing := missingf("node %s has no such file, or none that jobs may read%s: put it there, or use a path that every node has (a shared file system)", c.cfg.Node, c.where())
	if err != nil || !c.allowed(real) {
		return nil, missing
	}
	info, err := os.Stat(real)
	if err != nil {
		return nil, missing
	}
	data := &Data{Dir: real, Local: true, Size: -1, Count: -1}
	switch {
	case info.Mode().IsRegular():
		file, err := os.Open(real)
		if err != nil {
			return nil, faultf("node %s cannot read it: give the user of its agent the right to", c.cfg.Node)
		}
		_ = file.Close()
		data.Files, data.Size, data.Count = []string{filepath.Base(path)}, info.Size(), 1
	case info.IsDir():
		if err := c.count(ctx, real, data); err != nil {
			return nil, faultf("node %s cannot read all of it: give the user of its agent the right to", c.cfg.Node)
		}
	default:
		return nil, faultf("it is neither a file nor a directory on node %s", c.cfg.Node)
	}
	return &source{local: data}, nil
}

// count lists the files of a directory that is not large.
func (c *Cache) count(ctx context.Context, dir string, data *Data) error {
	seen, size := 0, int64(0)
	var files []string
	large := errors.New("large")
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if seen++; seen > maxCounted {
			return large
		}
		if err != nil || e.IsDir() {
			return err
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil || !c.allowed(real) {
			return nil // a link to nowhere, or to what is none of the job's business
		}
		if info, err := os.Stat(real); err == nil && info.Mode().IsRegular() {
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			files, size = append(files, filepath.ToSlash(rel)), size+info.Size()
		}
		return nil
	})
	switch {
	case errors.Is(err, large):
		return nil
	case err != nil:
		return err
	}
	data.Files, data.Size, data.Count = files, size, len(files)
	return nil
}

func (c *Cache) where() string {
	if len(c.cfg.Roots) == 0 {
		return ""
	}
	return " (they may read below " + strings.Join(c.cfg.Roots, ", ") + ")"
}

func (c *Cache) allowed(real string) bool {
	if within(real, c.cfg.Hidden) && !within(real, c.cfg.Shown) {
		return false
	}
	return len(c.cfg.Roots) == 0 || within(real, c.cfg.Roots)
}

func within(path string, dirs []string) bool {
	for _, dir := range dirs {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}
