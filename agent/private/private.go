// Package private decides which paths of a node no job may read through its agent: the agent's data directory, its
// keys, its caches, and the paths that the operator adds.
//
// Contract: New takes the private paths. Holds reports whether a path lies in one of them, Reaches whether a directory
// lies in one or contains one. Both take the directories that the job owns although they lie in a private path.
//
// Guarantees: a path is judged by the file system and the place in it to which it leads, so that neither links nor bind
// mounts hide a private directory. A path that cannot be judged is private.
//
// Where the private paths themselves lead is looked up again after a tenth of a second, or when a mount changes.
//
// Not guaranteed: that a path leads to the same place later. The caller resolves the links of a path, asks, and opens
// the resolved path without following links (package safedir).
package private

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/mindcoordinator/mind/agent/safedir"
)

// Paths are the private files and directories of a node.
type Paths struct {
	paths  []string
	mounts mounts
	known  known
}

// New returns the given private files and directories. Empty names are ignored.
func New(paths ...string) *Paths {
	p := &Paths{}
	for _, path := range paths {
		if path == "" {
			continue
		}
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		p.paths = append(p.paths, path)
	}
	return p
}

// All returns the private files and directories that exist, without links.
func (p *Paths) All() []string {
	if p == nil {
		return nil
	}
	var all []string
	for _, path := range p.paths {
		if real, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(all, real) {
			all = append(all, real)
		}
	}
	return all
}

// Close releases the open file of the mounts.
func (p *Paths) Close() { p.mounts.close() }

// Holds reports whether a path lies in a private directory, and in none that the job owns. real is absolute and without
// links. With a nil Paths, no path is private.
func (p *Paths) Holds(real string, owned ...string) bool {
	return p.judge(real, owned, func(table []mount, at spot) []spot { return []spot{at} }, spot.within)
}

// Reaches reports whether a directory lies in a private directory or contains one, apart from those that the job owns.
func (p *Paths) Reaches(real string, owned ...string) bool {
	all := func(table []mount, at spot) []spot { return append(below(table, real), at) }
	return p.judge(real, owned, all, func(at, private spot) bool { return at.within(private) || private.within(at) })
}

// judge compares the spots to which a path leads with those of the private paths.
func (p *Paths) judge(real string, owned []string, spots func([]mount, spot) []spot, meets func(at, private spot) bool) bool {
	if p == nil || len(p.paths) == 0 {
		return false
	}
	table, err := p.mounts.read()
	if err != nil {
		return true
	}
	at, err := locate(table, real)
	if err != nil {
		return true
	}
	var mine []spot
	for _, dir := range owned {
		if own, err := locate(table, dir); err == nil {
			mine = append(mine, own)
		}
	}
	for _, one := range spots(table, at) {
		if slices.ContainsFunc(mine, one.within) {
			continue
		}
		all, err := p.known.all(p.paths, table)
		if err != nil || slices.ContainsFunc(all, func(private spot) bool { return meets(one, private) }) {
			return true
		}
	}
	return false
}

// Resolve follows the links of a path whose last parts may not exist yet.
func Resolve(path string) (string, error) {
	path, rest := filepath.Clean(path), ""
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if _, lookErr := os.Lstat(path); !os.IsNotExist(lookErr) || path == filepath.Dir(path) {
			return "", err
		}
		rest = filepath.Join(filepath.Base(path), rest)
		path = filepath.Dir(path)
	}
}

// spot is a place in a file system.
type spot struct {
	device string
	path   string
}

// within reports whether a spot is another, or lies below it.
func (s spot) within(other spot) bool {
	return s.device == other.device && safedir.Within(s.path, other.path)
}
