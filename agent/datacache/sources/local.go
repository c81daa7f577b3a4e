package sources

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/safedir"
)

// maxCounted is how many entries of a local directory are counted; a larger directory is not counted.
const maxCounted = 10_000

// local finds a file or directory of the node for a tenant. It must be in a directory that the operator has listed, or in
// the outputs of the tenant's own jobs. The agent may read more than jobs should, and must not reveal what exists
// elsewhere, nor what the user of the tenant's jobs could not see.
func (r *Resolver) local(ctx context.Context, tenant, path string) (found *Source, err error) {
	if !filepath.IsAbs(path) {
		return nil, Faultf("it is not an absolute path: begin with /, or with hf://, s3://, https:// and so on for remote data")
	}
	if strings.ContainsRune(path, 0) {
		return nil, Faultf("it has a NUL character")
	}
	path = filepath.Clean(path)
	if !r.listed(tenant, path) {
		return nil, r.outside() // decided without looking at it
	}
	if r.cfg.As == nil {
		return r.look(ctx, tenant, path)
	}
	if failed := r.cfg.As(tenant, func() { found, err = r.look(ctx, tenant, path) }); failed != nil {
		return nil, Faultf("node %s cannot look at it: %v", r.cfg.Node, failed)
	}
	return found, err
}

// look finds a file or directory in the directories for sources.
func (r *Resolver) look(ctx context.Context, tenant, path string) (*Source, error) {
	// A link counts as its target. A target outside is reported like a missing one, so that jobs learn nothing about it.
	missing := missingf("node %s has no such file: put it there, or use a path that every node has (a shared file system)", r.cfg.Node)
	if r.cfg.As != nil {
		missing = missingf("node %s has no such file that %s can reach: put it there, let the user pass through the directories above it, or use a path that every node has (a shared file system)", r.cfg.Node, r.reader())
	}
	root, name, ok := r.resolved(tenant, path)
	if !ok {
		return nil, missing
	}
	top, err := safedir.Open(root)
	if err != nil {
		return nil, missing
	}
	defer top.Close()
	stat, err := top.Look(name)
	if err != nil {
		return nil, missing
	}
	data := &Local{Dir: filepath.Join(root, name), Size: -1, Count: -1}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if err := top.Readable(name); err != nil {
			return nil, Faultf("node %s cannot read it: give %s read permission", r.cfg.Node, r.reader())
		}
		data.Files, data.Size, data.Count = []string{filepath.Base(path)}, stat.Size, 1
	case unix.S_IFDIR:
		if err := r.count(ctx, tenant, top, name, data); err != nil {
			return nil, Faultf("node %s cannot read all of it: give %s read permission", r.cfg.Node, r.reader())
		}
	default:
		return nil, Faultf("it is neither a file nor a directory on node %s", r.cfg.Node)
	}
	return &Source{Local: data}, nil
}

// reader names the user that must be able to read local sources.
func (r *Resolver) reader() string {
	if r.cfg.As == nil {
		return "the user of its agent"
	}
	return "the user of the job"
}

// count lists the files of a directory that is not large.
func (r *Resolver) count(ctx context.Context, tenant string, top *safedir.Dir, name string, data *Local) error {
	dir, err := top.Below(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	size, left := int64(0), maxCounted
	var files []string
	err = dir.Walk(ctx, &left, func(e safedir.Entry) error {
		if e.Outside != "" {
			e.Size, e.Regular = r.led(tenant, filepath.Join(data.Dir, e.Path))
		}
		if e.Regular {
			files, size = append(files, e.Path), size+e.Size
		}
		return nil
	})
	switch {
	case errors.Is(err, safedir.ErrTooLarge), errors.Is(err, safedir.ErrTooDeep):
		return nil
	case err != nil:
		return err
	}
	slices.Sort(files)
	data.Files, data.Size, data.Count = files, size, len(files)
	return nil
}

// led returns the size of the regular file that a link points to. ok is false if the target does not exist, or the job
// may not use it.
func (r *Resolver) led(tenant, path string) (size int64, ok bool) {
	root, name, ok := r.resolved(tenant, path)
	if !ok {
		return 0, false
	}
	top, err := safedir.Open(root)
	if err != nil {
		return 0, false
	}
	defer top.Close()
	stat, err := top.Look(name)
	return stat.Size, err == nil && stat.Mode&unix.S_IFMT == unix.S_IFREG
}

// outside explains why a path is not used.
func (r *Resolver) outside() error {
	if len(r.cfg.Roots) == 0 {
		return missingf("jobs may not read files of node %s: list the directories with data in data_roots of its agent", r.cfg.Node)
	}
	return missingf("jobs may not read files there on node %s: put it below %s, or add its directory to data_roots of the agent", r.cfg.Node, strings.Join(r.cfg.Roots, " or "))
}

// roots are the directories that a tenant's sources may use: as configured, and with links resolved.
func (r *Resolver) roots(tenant string) (named, real []string) {
	named = r.cfg.Roots
	if r.cfg.Own != nil {
		named = slices.Concat(named, r.cfg.Own(tenant))
	}
	return named, realPaths(named)
}

// listed reports whether a path is in a directory for sources. It compares names only.
func (r *Resolver) listed(tenant, path string) bool {
	named, real := r.roots(tenant)
	return within(path, named) || within(path, real)
}

// resolved follows the links of a path, and returns the root that contains it and its name there.
func (r *Resolver) resolved(tenant, path string) (root, name string, ok bool) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", "", false
	}
	_, roots := r.roots(tenant)
	// A private directory stays private, unless it was listed itself.
	listed := slices.DeleteFunc(slices.Clone(roots), func(root string) bool { return !r.cfg.Private.Holds(root) })
	if r.cfg.Private.Holds(real, listed...) {
		return "", "", false
	}
	for _, root := range roots {
		if name, err := filepath.Rel(root, real); err == nil && filepath.IsLocal(name) {
			return root, name, true
		}
	}
	return "", "", false
}

func within(path string, dirs []string) bool {
	for _, dir := range dirs {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// realPaths resolves the links of directories.
func realPaths(dirs []string) []string {
	dirs = slices.Clone(dirs)
	for i, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dirs[i] = real
		}
	}
	return dirs
}
