// Package checkpoints lays out checkpoints in an archive.
//
//	KEY/parts/SHA256
//	KEY/manifest.json
//
// Contract: Save puts the files of a checkpoint below its key, Open finds a checkpoint, Saved reads it, and Remove
// removes it. Only one writer at a time may use a key. Extract extracts a checkpoint from the tar archive that Saved
// makes, and Digest returns its content digest.
//
// Guarantees: the manifest is put last and removed first, so a checkpoint is in the archive completely or not at all.
// Files are split into parts that are named by their SHA-256; after an interrupted Save, the next one puts only the
// missing parts. Save compares the bytes that it sends with the digests, and fails with ErrChanged if the files change
// meanwhile. Reads are compared with the digests, too. No name and no link in a manifest leads out of the checkpoint:
// Open refuses such a manifest.
//
// Not kept: directories without files, owners, times and extended attributes.
package checkpoints

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mindcoordinator/mind/archive"
)

const (
	// partSize is the size of all parts of a file except the last.
	partSize = 64 << 20
	// maxFiles limits the files of a checkpoint, maxManifest the size of the manifest.
	maxFiles    = 100_000
	maxManifest = 128 << 20

	partsFolder  = "parts/"
	manifestName = "manifest.json"
)

var (
	// ErrChanged means that the files are not, or no longer, the ones to save.
	ErrChanged = errors.New("its files have changed")
	// ErrDamaged means that the contents of the archive differ from what was put there.
	ErrDamaged = errors.New("the archive's copy is damaged")
)

// File is a file of a checkpoint, or a link in it.
type File struct {
	// Path is relative to the checkpoint, with slashes.
	Path string `json:"path"`
	Size int64  `json:"size,omitempty"`
	// Mode has the permissions.
	Mode uint32 `json:"mode,omitempty"`
	// Link is the final target of a link, relative to the checkpoint; empty: it is a file.
	Link string `json:"link,omitempty"`
	// SHA256 and Parts are set by Save.
	SHA256 string   `json:"sha256,omitempty"`
	Parts  []string `json:"parts,omitempty"`
}

// manifest is the content of manifest.json.
type manifest struct {
	Version  int   `json:"version"`
	PartSize int64 `json:"part_size"`
	// Registered is the digest under which the checkpoint was registered.
	Registered string `json:"registered"`
	// Digest is the content digest.
	Digest string `json:"digest"`
	Files  []File `json:"files"` // sorted by path
}

// digestOf returns the content digest: a digest over the names, sizes and contents of files, sorted by path.
func digestOf(files []File) string {
	h := sha256.New()
	for i := range files {
		f := &files[i]
		if f.Link != "" {
			fmt.Fprintf(h, "%d:%s -> %d:%s\n", len(f.Path), f.Path, len(f.Link), f.Link)
		} else {
			fmt.Fprintf(h, "%d:%s %d %s\n", len(f.Path), f.Path, f.Size, f.SHA256)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// size returns the size of all files.
func (m *manifest) size() (total int64) {
	for i := range m.Files {
		total += m.Files[i].Size
	}
	return total
}

// parts returns the sizes of the parts, by name.
func (m *manifest) parts() map[string]int64 {
	all := make(map[string]int64)
	for i := range m.Files {
		f := &m.Files[i]
		for n, part := range f.Parts {
			all[part] = min(m.PartSize, f.Size-int64(n)*m.PartSize)
		}
	}
	return all
}

// check returns an error if a manifest is invalid: other programs can write to the archive, too.
func (m *manifest) check() error {
	if m.Version != 1 || m.PartSize <= 0 {
		return fmt.Errorf("its manifest has version %d, which this version of Mind does not read", m.Version)
	}
	if err := checkFiles(m.Files); err != nil {
		return err
	}
	for i := range m.Files {
		f := &m.Files[i]
		if f.Link != "" {
			continue
		}
		if !isDigest(f.SHA256) || int64(len(f.Parts)) != (f.Size+m.PartSize-1)/m.PartSize || !all(f.Parts, isDigest) {
			return fmt.Errorf("%w: the manifest does not say what is in %q", ErrDamaged, f.Path)
		}
	}
	if digestOf(m.Files) != m.Digest {
		return fmt.Errorf("%w: the manifest does not have its digest", ErrDamaged)
	}
	return nil
}

func all(list []string, ok func(string) bool) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return !ok(s) })
}

func isDigest(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil && len(text) == 2*sha256.Size
}

// checkFiles refuses names that lead out of the checkpoint, or that some system would read as other names.
func checkFiles(files []File) error {
	if len(files) > maxFiles {
		return fmt.Errorf("it has more than %d files", maxFiles)
	}
	seen, dirs := make(map[string]bool, len(files)), make(map[string]bool)
	for i := range files {
		f := &files[i]
		switch {
		case !safe(f.Path) || seen[f.Path]:
			return fmt.Errorf("it has a file %.200q, whose name cannot be kept in an archive", f.Path)
		case f.Size < 0 || f.Mode > 0o777 || f.Link != "" && (f.Size != 0 || f.SHA256 != "" || len(f.Parts) > 0):
			return fmt.Errorf("%w: %.200q makes no sense", ErrDamaged, f.Path)
		case i > 0 && files[i-1].Path >= f.Path:
			return fmt.Errorf("%w: its files are not in order", ErrDamaged)
		}
		seen[f.Path] = true
		for d := path.Dir(f.Path); d != "." && !dirs[d]; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	for i := range files {
		f := &files[i]
		if dirs[f.Path] {
			return fmt.Errorf("it has %.200q as a file and as a directory", f.Path)
		}
		if f.Link != "" && !dirs[f.Link] && (!seen[f.Link] || isLink(files, f.Link)) {
			return fmt.Errorf("it has a link %.200q to %.200q, which is not one of its files or directories", f.Path, f.Link)
		}
	}
	return nil
}

func safe(name string) bool {
	return fs.ValidPath(name) && name != "." && filepath.IsLocal(filepath.FromSlash(name)) && utf8.ValidString(name) && !strings.ContainsAny(name, "\x00\\")
}

func isLink(files []File, name string) bool {
	i, found := find(files, name)
	return found && files[i].Link != ""
}

func find(files []File, name string) (int, bool) {
	return slices.BinarySearchFunc(files, name, func(f File, name string) int { return strings.Compare(f.Path, name) })
}

// Open finds a checkpoint in an archive. It returns archive.ErrNotFound if the checkpoint does not exist or is
// incomplete.
func Open(ctx context.Context, store archive.Store, key string) (*Saved, error) {
	body, err := store.Get(ctx, key+"/"+manifestName, 0)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("read the manifest of %s: %w", key, err)
	}
	s := &Saved{store: store, key: key, text: int64(len(text))}
	if len(text) > maxManifest {
		err = ErrDamaged
	} else {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(&s.m)
	}
	if err == nil {
		err = s.m.check()
	}
	if err != nil {
		return nil, fmt.Errorf("the manifest of %s: %w", key, err)
	}
	return s, nil
}

// Remove removes all objects below a key.
func Remove(ctx context.Context, store archive.Store, key string) error {
	// Without the manifest the rest does not count as a checkpoint.
	if err := store.Delete(ctx, key+"/"+manifestName); err != nil {
		return err
	}
	left, err := store.List(ctx, key+"/")
	if err != nil {
		return err
	}
	for _, o := range left {
		if err := store.Delete(ctx, o.Key); err != nil {
			return err
		}
	}
	return archive.Sweep(store, key)
}
