package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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

// places are where checkpoints may lie of which a program tells.
type places struct {
	// roots are the directories; hidden is one of which only what is in a root that lies in it itself counts.
	roots  []string
	hidden string
}

// open says whether what lies at a path, in a directory of the roots, counts; links are resolved.
func (p places) open(real, top string) bool {
	hidden, err := filepath.EvalSymlinks(p.hidden)
	return p.hidden == "" || err == nil && (!lies(real, hidden) || lies(top, hidden))
}

// manifestWithin makes the manifest of a directory that lies where it may. Links may lead to it, as long as that is where they
// lead.
func manifestWithin(ctx context.Context, may places, path string, left *int) (manifest, error) {
	roots := may.roots
	real, err := filepath.EvalSymlinks(path)
	if err != nil && slices.ContainsFunc(roots, func(root string) bool { return lies(path, root) }) {
		return manifest{}, err
	}
	if err != nil {
		return manifest{}, errNotWithin // as if it were there: whether it is, is none of the job's business
	}
	for _, root := range roots {
		top, err := filepath.EvalSymlinks(root)
		if err != nil || !lies(real, top) || !may.open(real, top) {
			continue
		}
		name, err := filepath.Rel(top, real)
		if err != nil {
			return manifest{}, err
		}
		dir, err := tree.Open(top)
		if err != nil {
			return manifest{}, err
		}
		defer dir.Close()
		return manifestBelow(ctx, dir, name, left)
	}
	return manifest{}, errNotWithin
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
