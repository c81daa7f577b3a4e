package uploads

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// File is a file of a tree, or a link.
type File struct {
	// Path is relative, with slashes.
	Path string `json:"path"`
	// Executable: the file may be run. Nothing else of its mode is kept.
	Executable bool  `json:"executable,omitempty"`
	Size       int64 `json:"size,omitempty"`
	// Pieces are the digests of the pieces of the file, in order: PieceSize bytes each, except the last one.
	Pieces []string `json:"pieces,omitempty"`
	// Link is the target of a link, relative to its folder; empty: it is a file.
	Link string `json:"link,omitempty"`
}

// Tree lists the files of a directory. Folders without files are not part of it.
type Tree struct {
	Files []File `json:"files"`
}

// Bytes returns the size of all files.
func (t *Tree) Bytes() (n int64) {
	for i := range t.Files {
		n += t.Files[i].Size
	}
	return n
}

// ID returns the id of a tree: a digest over all that it says. It sorts the files.
func (t *Tree) ID() string {
	slices.SortFunc(t.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	sum := sha256.New()
	for i := range t.Files {
		f := &t.Files[i]
		if f.Link != "" {
			fmt.Fprintf(sum, "link %d:%s %d:%s\n", len(f.Path), f.Path, len(f.Link), f.Link)
			continue
		}
		fmt.Fprintf(sum, "file %d:%s %t %d %s\n", len(f.Path), f.Path, f.Executable, f.Size, strings.Join(f.Pieces, ","))
	}
	return scheme + hex.EncodeToString(sum.Sum(nil))
}

// Check returns an Invalid if a tree could not be unpacked safely, or has more than a number of bytes.
func (t *Tree) Check(most int64) error {
	switch {
	case len(t.Files) == 0:
		return Invalid("the upload has no file")
	case len(t.Files) > MaxFiles:
		return tooMany()
	}
	seen := make(map[string]bool, len(t.Files))
	total := int64(0)
	for i := range t.Files {
		f := &t.Files[i]
		if err := f.check(); err != nil {
			return err
		}
		if seen[f.Path] {
			return invalidf("%q is in the upload twice", f.Path)
		}
		seen[f.Path] = true
		if total += f.Size; total > most {
			return tooLarge(most)
		}
	}
	folders := make(map[string]bool)
	for i := range t.Files {
		for dir := path.Dir(t.Files[i].Path); dir != "." && !folders[dir]; dir = path.Dir(dir) {
			if seen[dir] {
				return invalidf("%q is in the upload both as a file and as a folder", dir)
			}
			if folders[dir] = true; len(folders) > MaxFiles {
				return invalidf("the upload has more than %d folders: leave some out with .mindignore", MaxFiles)
			}
		}
	}
	return nil
}

func tooLarge(most int64) error {
	return invalidf("the upload has more than %s: leave large files out with .mindignore, and let the job read them from a shared file system or an object store", size(most))
}

func size(bytes int64) string {
	if bytes >= 1<<20 && bytes%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// maxPath and maxName limit the names of files, as Linux does, and maxDepth the folders of a path.
const maxPath, maxName, maxDepth = 2048, 255, 64

func (f *File) check() error {
	if err := CheckPath(f.Path); err != nil {
		return err
	}
	if f.Link != "" {
		if f.Size != 0 || len(f.Pieces) > 0 || f.Executable {
			return invalidf("%q is both a file and a link", f.Path)
		}
		return CheckLink(f.Path, f.Link)
	}
	if f.Size < 0 || int64(len(f.Pieces)) != (f.Size+PieceSize-1)/PieceSize {
		return invalidf("%q has %d bytes and %d pieces: every piece but the last has %d bytes", f.Path, f.Size, len(f.Pieces), PieceSize)
	}
	for _, sum := range f.Pieces {
		if !validSum(sum) {
			return invalidf("%q has a piece %.80q: give the SHA-256 in 64 hexadecimal digits", f.Path, sum)
		}
	}
	return nil
}

// CheckPath refuses names that are not safe below any directory.
func CheckPath(name string) error {
	switch {
	case len(name) > maxPath:
		return invalidf("the path %.80q... has %d bytes; at most %d are allowed", name, len(name), maxPath)
	case strings.Count(name, "/") >= maxDepth:
		return invalidf("the path %.80q... has %d folders; fewer than %d are allowed", name, strings.Count(name, "/"), maxDepth)
	case !utf8.ValidString(name):
		return invalidf("the path %q is not UTF-8", name)
	case strings.ContainsRune(name, 0):
		return invalidf("the path %q has a NUL character", name)
	case path.IsAbs(name):
		return invalidf("the path %q is absolute", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return invalidf("the path %q is not safe: it must name a file in the directory, without \"..\"", name)
		case len(part) > maxName:
			return invalidf("the path %.80q... has a name of %d bytes; at most %d are allowed", name, len(part), maxName)
		}
	}
	return nil
}

// CheckLink refuses links that lead out of the tree. A target may go up only at its beginning: there it starts from the folder
// of the link, which is no link itself. Behind a name, which may be another link, ".." could lead anywhere.
func CheckLink(name, target string) error {
	switch {
	case path.IsAbs(target):
		return invalidf("the link %q leads to %q: absolute links are not sent; leave it out with .mindignore", name, target)
	case len(target) > maxPath || !utf8.ValidString(target) || strings.ContainsRune(target, 0):
		return invalidf("the link %q has a target that is too long, or is no text", name)
	}
	depth, down := strings.Count(name, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == ".." && down:
			return invalidf("the link %q leads to %q: write its target with \"..\" at the beginning only", name, target)
		case part == "..":
			depth--
		case part != "" && part != ".":
			down = true
		}
		if depth < 0 {
			return invalidf("the link %q leads to %q, out of the directory; leave it out with .mindignore", name, target)
		}
	}
	return nil
}

// ParseTree reads a tree as users send it. It stops at the first file that is too many: a small text can name very many.
func ParseTree(text []byte) (*Tree, error) {
	t := &Tree{}
	if err := t.parse(json.NewDecoder(bytes.NewReader(text))); err != nil {
		if why := Invalid(""); errors.As(err, &why) {
			return nil, err
		}
		return nil, invalidf("the body is no list of files: %v", err)
	}
	return t, nil
}

func (t *Tree) parse(d *json.Decoder) error {
	if err := expect(d, json.Delim('{')); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if name != "files" {
			if err := d.Decode(new(json.RawMessage)); err != nil {
				return err
			}
			continue
		}
		if err := expect(d, json.Delim('[')); err != nil {
			return err
		}
		for d.More() {
			if len(t.Files) == MaxFiles {
				return tooMany()
			}
			var f File
			if err := d.Decode(&f); err != nil {
				return err
			}
			t.Files = append(t.Files, f)
		}
		if err := expect(d, json.Delim(']')); err != nil {
			return err
		}
	}
	if err := expect(d, json.Delim('}')); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows behind its end")
	}
	return nil
}

func expect(d *json.Decoder, want json.Delim) error {
	is, err := d.Token()
	if err != nil {
		return err
	}
	if is != want {
		return fmt.Errorf("%v instead of %v", is, want)
	}
	return nil
}

func tooMany() error {
	return invalidf("the upload has more than %d files; at most %d are allowed: leave some out with .mindignore", MaxFiles, MaxFiles)
}

// Need is a piece that a tree needs.
type Need struct {
	Sum  string
	Size int64
}

// Needs lists the pieces of a tree, each once, in the order of the files.
func (t *Tree) Needs() []Need {
	var all []Need
	seen := make(map[string]bool)
	for i := range t.Files {
		f := &t.Files[i]
		for n, sum := range f.Pieces {
			if !seen[sum] {
				seen[sum] = true
				all = append(all, Need{sum, f.pieceSize(n)})
			}
		}
	}
	return all
}

func (f *File) pieceSize(n int) int64 { return min(PieceSize, f.Size-int64(n)*PieceSize) }
