package observe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/agent/safedir"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// maxCheckpointFiles limits the files of a checkpoint.
const maxCheckpointFiles = 100_000

// manifest describes the contents of a checkpoint.
type manifest struct {
	// digest is the SHA-256 of the sorted relative names, sizes and times of change of the files, so that a program that saves
	// again under the same name has saved another checkpoint; links that lead out of the checkpoint count with name and target.
	digest string
	// size is the sum of the sizes.
	size int64
	// former are the digests as older versions computed them: without the times, and also following links that lead out.
	former []string
}

// is reports whether a digest is that of the manifest, by whatever version it was computed.
func (m *manifest) is(digest string) bool {
	return m.digest == digest || slices.Contains(m.former, digest)
}

// manifestAt makes the manifest of a directory.
func manifestAt(ctx context.Context, path string, left *int) (manifest, error) {
	dir, err := safedir.Open(path)
	if err != nil {
		return manifest{}, err
	}
	defer dir.Close()
	return manifestOf(ctx, dir, path, left)
}

// manifestBelow makes the manifest of a directory below another, to which no link leads.
func manifestBelow(ctx context.Context, dir *safedir.Dir, name string, left *int) (m manifest, err error) {
	err = below(dir, name, func(d *safedir.Dir) error {
		m, err = manifestOf(ctx, d, "", left)
		return err
	})
	return m, err
}

func below(dir *safedir.Dir, name string, do func(*safedir.Dir) error) error {
	d, err := dir.Below(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return do(d)
}

// manifestOf makes the manifest of an open directory; path is its path if the former digest is needed, too.
func manifestOf(ctx context.Context, dir *safedir.Dir, path string, left *int) (m manifest, err error) {
	var files, untimed, former []manifestLine
	outside := false
	err = dir.Walk(ctx, left, func(e safedir.Entry) error {
		if e.Dir {
			return nil
		}
		if len(files) == maxCheckpointFiles {
			return errTooManyFiles
		}
		m.size += e.Size
		line := manifestLine{e.Path, strconv.FormatInt(e.Size, 10)}
		if e.Outside == "" {
			files = append(files, timedLine(e.Path, e.Size, e.Changed.Nano()))
			untimed, former = append(untimed, line), append(former, line)
			return nil
		}
		link := manifestLine{e.Path, "-> " + e.Outside}
		files, untimed = append(files, link), append(untimed, link)
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
	m.digest, m.former = digestOf(files), []string{digestOf(untimed)}
	if outside && path != "" {
		m.former = append(m.former, digestOf(former))
	}
	return m, nil
}

// manifestLine is a file of a checkpoint, with its size and its time, or where it leads.
type manifestLine struct{ name, what string }

func timedLine(name string, size, modified int64) manifestLine {
	return manifestLine{name, strconv.FormatInt(size, 10) + " " + strconv.FormatInt(modified, 10)}
}

func digestOf(lines []manifestLine) string {
	slices.SortFunc(lines, func(a, b manifestLine) int { return strings.Compare(a.name, b.name) })
	hash := sha256.New()
	for _, l := range lines {
		fmt.Fprintf(hash, "%s %s\n", l.name, l.what)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Listed reports whether listed files are those of a manifest.
func Listed(files []*v1.CheckpointFile, digest string) bool {
	timed, untimed := make([]manifestLine, len(files)), make([]manifestLine, len(files))
	for i, f := range files {
		timed[i] = timedLine(f.GetPath(), f.GetSize(), f.GetModified())
		untimed[i] = manifestLine{f.GetPath(), strconv.FormatInt(f.GetSize(), 10)}
	}
	return digestOf(timed) == digest || digestOf(untimed) == digest
}

// MaxEntries limits how many files and directories of a checkpoint are visited.
const MaxEntries = maxLookEntries

// Digest returns the digest of the manifest of an open directory.
func Digest(ctx context.Context, dir *safedir.Dir) (string, error) {
	left := maxLookEntries
	m, err := manifestOf(ctx, dir, "", &left)
	return m.digest, err
}

// Matches reports whether an open directory has the files of a manifest.
func Matches(ctx context.Context, dir *safedir.Dir, digest string) (bool, error) {
	left := maxLookEntries
	m, err := manifestOf(ctx, dir, "", &left)
	return err == nil && m.is(digest), err
}

// Verify compares a checkpoint with its registration. The error explains to users why a task cannot resume from it.
func Verify(ctx context.Context, point *v1.ResumePoint) error {
	left := maxLookEntries
	m, err := manifestAt(ctx, point.GetPath(), &left)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("it does not exist on this node: it was removed, or is on a file system that this node does not share")
	case err != nil:
		return fmt.Errorf("it cannot be read: %w", err)
	case m.size == 0 && len(m.former) == 1:
		return errors.New("it is empty")
	case point.GetManifestDigest() != "" && !m.is(point.GetManifestDigest()):
		return errors.New("it has changed since it was registered: it may be incomplete, or a later one")
	}
	return nil
}
