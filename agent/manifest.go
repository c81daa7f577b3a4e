package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/tree"
)

// maxCheckpointFiles bounds the files of a checkpoint.
const maxCheckpointFiles = 100_000

var (
	errWrittenLater = errors.New("written later")
	errNotWithin    = errors.New("it lies outside of what the job may register: its output and checkpoint directories, its working directory, and data_roots of the agent")
	errTooManyFiles = fmt.Errorf("it has more than %d files", maxCheckpointFiles)
)

// manifest describes what a checkpoint consists of.
type manifest struct {
	// digest is the SHA-256 of the sorted relative names and sizes of its files; of links that lead out of it, of names and
	// where they lead to.
	digest string
	// size is the sum of the sizes.
	size int64
	// former is the digest as versions before this one made it, which counted a link that leads out as what it leads to. Empty: the
	// same.
	former string
}

// manifestAt makes the manifest of a directory.
func manifestAt(ctx context.Context, path string, left *int) (manifest, error) {
	dir, err := tree.Open(path)
	if err != nil {
		return manifest{}, err
	}
	defer dir.Close()
	return manifestOf(ctx, dir, path, left)
}

// manifestBelow makes the manifest of a directory below another, to which no link leads.
func manifestBelow(ctx context.Context, dir *tree.Dir, name string, left *int) (m manifest, err error) {
	err = below(dir, name, func(d *tree.Dir) error {
		m, err = manifestOf(ctx, d, "", left)
		return err
	})
	return m, err
}

func below(dir *tree.Dir, name string, do func(*tree.Dir) error) error {
	d, err := dir.Below(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return do(d)
}

// places are where checkpoints of a job may lie.
type places struct {
	// own are the directories that agents made for the job; roots are others.
	own, roots []string
	// hidden is a directory of which only what is in a place that lies in it itself counts.
	hidden string
}

func placesOf(spec shim.Spec, roots []string) places {
	p := places{own: slices.Clone(spec.Dirs), roots: roots}
	if spec.CheckpointDir != "" {
		p.own = append(p.own, spec.CheckpointDir)
	}
	// A job that runs in the root of the file system does not own all of it.
	if spec.Cwd != "" && spec.Cwd != "/" {
		p.roots = slices.Concat([]string{spec.Cwd}, roots)
	}
	return p
}

// ofAJob are the names of folders of jobs.
var ofAJob = regexp.MustCompile(`^job_[0-9a-z]+$`)

// ownAt is where a directory lies that agents made for a job: that it was no link, nor the folder of the job above it, was so when
// they made it. The task may have put one there since.
func ownAt(dir string) (string, error) {
	above, name := filepath.Dir(dir), filepath.Base(dir)
	if folder := filepath.Base(above); ofAJob.MatchString(folder) {
		above, name = filepath.Dir(above), filepath.Join(folder, name)
	}
	above, err := filepath.EvalSymlinks(above)
	return filepath.Join(above, name), err
}

// all calls do with where each of the places lies, links resolved, and as it was named, until do returns false.
func (p places) all(do func(at, named string) bool) {
	for i, named := range slices.Concat(p.own, p.roots) {
		resolve := filepath.EvalSymlinks
		if i < len(p.own) {
			resolve = ownAt
		}
		if at, err := resolve(named); err == nil && !do(at, named) {
			return
		}
	}
}

// open opens a directory that lies where it may. Links may lead to it, as long as that is where they lead.
func (p places) open(path string) (dir *tree.Dir, err error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, p.missing(path)
	}
	err = errNotWithin
	p.all(func(at, _ string) bool {
		if !lies(real, at) || p.hides(real, at) {
			return true
		}
		dir, err = tree.Resolved(real)
		return false
	})
	return dir, err
}

// missing is why a path leads nowhere. What lies elsewhere is told like what is there: whether it is, is none of the job's business.
func (p places) missing(path string) error {
	err := errNotWithin
	p.all(func(at, named string) bool {
		name, relErr := filepath.Rel(named, path)
		if relErr != nil || !filepath.IsLocal(name) {
			return true
		}
		top, openErr := tree.Resolved(at)
		if openErr != nil {
			return true
		}
		defer top.Close()
		if _, lookErr := top.Look(name); errors.Is(lookErr, fs.ErrNotExist) || errors.Is(lookErr, fs.ErrPermission) {
			err = lookErr
		}
		return false
	})
	return err
}

// hides says whether what lies at a path, in one of the places, does not count.
func (p places) hides(real, at string) bool {
	if p.hidden == "" {
		return false
	}
	hidden, err := filepath.EvalSymlinks(p.hidden)
	return err != nil || lies(real, hidden) && !lies(at, hidden)
}

// manifestWithin makes the manifest of a directory that lies where it may.
func manifestWithin(ctx context.Context, may places, path string, left *int) (manifest, error) {
	dir, err := may.open(path)
	if err != nil {
		return manifest{}, err
	}
	defer dir.Close()
	return manifestOf(ctx, dir, "", left)
}

// lies says whether a path is that of a directory, or of something in it.
func lies(path, dir string) bool {
	name, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(name)
}

// manifestOf makes the manifest of an open directory; path is where it is, if the former digest is to be made, too.
func manifestOf(ctx context.Context, dir *tree.Dir, path string, left *int) (m manifest, err error) {
	var files, former []manifestLine
	outside := false
	err = dir.Walk(ctx, left, func(e tree.Entry) error {
		if e.Dir {
			return nil
		}
		if len(files) == maxCheckpointFiles {
			return errTooManyFiles
		}
		m.size += e.Size
		line := manifestLine{e.Path, strconv.FormatInt(e.Size, 10)}
		if e.Outside == "" {
			files, former = append(files, line), append(former, line)
			return nil
		}
		files = append(files, manifestLine{e.Path, "-> " + e.Outside})
		if path != "" {
			outside = true
			if info, err := os.Stat(filepath.Join(path, e.Path)); err == nil {
				line.what = strconv.FormatInt(info.Size(), 10)
			}
			former = append(former, line)
		}
		return nil
	})
	if err != nil {
		return manifest{}, err
	}
	m.digest = digestOf(files)
	if outside {
		m.former = digestOf(former)
	}
	return m, nil
}

// manifestLine is a file of a checkpoint, and its size.
type manifestLine struct{ name, what string }

func digestOf(lines []manifestLine) string {
	slices.SortFunc(lines, func(a, b manifestLine) int { return strings.Compare(a.name, b.name) })
	hash := sha256.New()
	for _, l := range lines {
		fmt.Fprintf(hash, "%s %s\n", l.name, l.what)
	}
	return hex.EncodeToString(hash.Sum(nil))
}
