package checkpoints

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/archive"
)

// folder is an archive in a directory that counts puts.
type folder struct {
	archive.Store
	dir   string
	puts  atomic.Int32
	after int32 // puts that succeed; the others fail. 0: all succeed
}

var errFull = errors.New("no space")

func (f *folder) Put(ctx context.Context, key string, body io.Reader, size int64) error {
	if n := f.puts.Add(1); f.after > 0 && n > f.after {
		return errFull
	}
	return f.Store.Put(ctx, key, body, size)
}

// Sweep implements the method that archive.Sweep uses.
func (f *folder) Sweep(folder string) error { return archive.Sweep(f.Store, folder) }

func newFolder(t *testing.T) *folder {
	dir := t.TempDir()
	store, err := archive.Open("file://"+dir, archive.Access{})
	require.NoError(t, err)
	return &folder{Store: store, dir: dir}
}

// memory is a checkpoint in memory. A file that begins with "-> " is a link.
type memory map[string]string

type opened struct{ *strings.Reader }

func (opened) Close() error { return nil }

func (m memory) source() Source {
	return Source{
		Registered: "r1", Workers: 3,
		List: func(context.Context) (files []File, err error) {
			for name, text := range m {
				if to, ok := strings.CutPrefix(text, "-> "); ok {
					files = append(files, File{Path: name, Link: to})
				} else {
					files = append(files, File{Path: name, Size: int64(len(text)), Mode: 0o640})
				}
			}
			return files, nil
		},
		Open: func(name string) (Opened, error) { return opened{strings.NewReader(m[name])}, nil },
	}
}

var whole = memory{
	"weights-0": strings.Repeat("a", partSize) + "tail", "sub/weights-1": strings.Repeat("b", 100), "sub/same": strings.Repeat("b", 100),
	"empty": "", "latest": "-> sub/weights-1", "all": "-> sub",
}

// contents reads the tar archive of a checkpoint. A link reads as "-> " and its text.
func contents(t *testing.T, s *Saved) map[string]string {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, s.Tar(t.Context(), &text, time.Unix(7, 0)))
	got := map[string]string{}
	for r := tar.NewReader(&text); ; {
		h, err := r.Next()
		if err == io.EOF {
			return got
		}
		require.NoError(t, err)
		if h.Linkname != "" {
			got[h.Name] = "-> " + h.Linkname
			continue
		}
		body, err := io.ReadAll(r)
		require.NoError(t, err)
		got[h.Name] = string(body)
	}
}

func under(t *testing.T, f *folder) (names []string, size int64) {
	t.Helper()
	objects, err := f.List(t.Context(), "k/")
	require.NoError(t, err)
	for _, o := range objects {
		names, size = append(names, o.Key), size+o.Size
	}
	return names, size
}

func TestSave_andReadAgain(t *testing.T) {
	f := newFolder(t)
	var done atomic.Int64
	from := whole.source()
	from.Progress = func(n int64) { done.Store(n) }
	s, err := Save(t.Context(), f, "k/c1", from)
	require.NoError(t, err)
	require.Equal(t, int64(partSize+4+200), s.Size())
	require.Equal(t, s.Size(), done.Load())
	names, size := under(t, f)
	require.Len(t, names, 4, "two parts of one file, one that two files share, and the manifest")
	require.Equal(t, size, s.Stored())
	require.Equal(t, map[string]string(whole), contents(t, s), "the links lead where they did: both are in the top directory")

	again, err := Open(t.Context(), f, "k/c1")
	require.NoError(t, err)
	require.Equal(t, s.Digest(), again.Digest())
	require.Equal(t, "r1", again.Registered())
	for _, file := range again.Files() {
		if file.Path == "weights-0" {
			for _, at := range []int64{0, 5, partSize, partSize + 2, file.Size} {
				text, err := io.ReadAll(again.Read(t.Context(), file, at))
				require.NoError(t, err)
				require.True(t, string(text) == whole["weights-0"][at:], at)
			}
		}
	}

	// Another Save finds the checkpoint, without reading the files.
	puts := f.puts.Load()
	missing := memory{}.source()
	same, err := Save(t.Context(), f, "k/c1", missing)
	require.NoError(t, err)
	require.Equal(t, s.Digest(), same.Digest())
	require.Equal(t, puts, f.puts.Load())

	// Flat has copies in place of links.
	flat := map[string]int64{}
	for _, file := range s.Flat() {
		flat[file.Path] = file.Size
		require.Empty(t, file.Link)
	}
	require.Equal(t, map[string]int64{
		"weights-0": partSize + 4, "sub/weights-1": 100, "sub/same": 100, "empty": 0, "latest": 100, "all/weights-1": 100, "all/same": 100,
	}, flat)

	require.NoError(t, Remove(t.Context(), f, "k/c1"))
	require.NoError(t, Remove(t.Context(), f, "k/c1"), "again")
	left, err := os.ReadDir(f.dir)
	require.NoError(t, err)
	require.Empty(t, left, "not even a directory")
	_, err = Open(t.Context(), f, "k/c1")
	require.ErrorIs(t, err, archive.ErrNotFound)
}

// After an interruption at any point, nothing counts as a checkpoint, and the next Save puts only the missing parts.
func TestSave_goesOn(t *testing.T) {
	whole := memory{}
	for i := range 12 {
		whole[fmt.Sprintf("f%d", i)] = strings.Repeat("x", i+1)
	}
	for after := int32(1); after <= 12; after++ {
		f := newFolder(t)
		f.after = after
		_, err := Save(t.Context(), f, "k/c1", whole.source())
		require.ErrorIs(t, err, errFull)
		_, err = Open(t.Context(), f, "k/c1")
		require.ErrorIs(t, err, archive.ErrNotFound)
		names, _ := under(t, f)
		f.after = 0
		f.puts.Store(0)
		// This is the temporary file of a killed writer.
		require.NoError(t, os.WriteFile(filepath.Join(f.dir, "k/c1/parts/.new-7-1"), []byte("half"), 0o600))
		s, err := Save(t.Context(), f, "k/c1", whole.source())
		require.NoError(t, err)
		require.Equal(t, 13-len(names), int(f.puts.Load()), "after %d", after)
		require.Equal(t, map[string]string(whole), contents(t, s))
		_, size := under(t, f)
		require.Equal(t, size, s.Stored())
		require.NoFileExists(t, filepath.Join(f.dir, "k/c1/parts/.new-7-1"))
	}
}

// An earlier try has put parts of other contents, which are removed.
func TestSave_removesPartsOfOtherContents(t *testing.T) {
	f := newFolder(t)
	f.after = 1
	_, err := Save(t.Context(), f, "k/c1", memory{"a": "before", "b": "rest"}.source())
	require.Error(t, err)
	f.after = 0
	s, err := Save(t.Context(), f, "k/c1", memory{"a": "behind", "b": "tail"}.source())
	require.NoError(t, err)
	_, size := under(t, f)
	require.Equal(t, size, s.Stored())
}

// If files change at any moment of a Save, nothing counts as a checkpoint.
func TestSave_noticesChanges(t *testing.T) {
	for name, change := range map[string]func(m memory, from *Source){
		"between digest and transfer": func(m memory, from *Source) {
			opens := 0
			from.Workers = 1
			from.Open = func(name string) (Opened, error) {
				if opens++; opens > len(m) {
					return opened{strings.NewReader("other")}, nil
				}
				return opened{strings.NewReader(m[name])}, nil
			}
		},
		"it gets shorter": func(m memory, from *Source) {
			from.Open = func(string) (Opened, error) { return opened{strings.NewReader("123")}, nil }
		},
		"a file more at the end": func(m memory, from *Source) {
			list, calls := from.List, 0
			from.List = func(ctx context.Context) ([]File, error) {
				if calls++; calls == 2 {
					m["more"] = "x"
				}
				return list(ctx)
			}
		},
	} {
		f := newFolder(t)
		m := memory{"a": "first", "b": "secon"}
		from := m.source()
		change(m, &from)
		_, err := Save(t.Context(), f, "k/c1", from)
		require.ErrorIs(t, err, ErrChanged, name)
		_, err = Open(t.Context(), f, "k/c1")
		require.ErrorIs(t, err, archive.ErrNotFound, name)
	}
}

// Reading a part that was changed in the archive fails.
func TestTar_noticesDamage(t *testing.T) {
	for name, text := range map[string]string{"longer": "secondsecond", "other": "SECOND", "shorter": "sec"} {
		f := newFolder(t)
		s, err := Save(t.Context(), f, "k/c1", memory{"a": "second"}.source())
		require.NoError(t, err)
		part := filepath.Join(f.dir, "k/c1/parts", s.Files()[0].Parts[0])
		require.NoError(t, os.WriteFile(part, []byte(text), 0o600))
		err = s.Tar(t.Context(), io.Discard, time.Time{})
		if name == "longer" {
			require.NoError(t, err, "what follows is not read")
			continue
		}
		require.ErrorIs(t, err, ErrDamaged, name)
	}
}

// Open does not trust manifests.
func TestOpen_refusesHostileManifests(t *testing.T) {
	file := func(path string) File { return File{Path: path, SHA256: strings.Repeat("0", 64)} }
	part := File{Path: "a", Size: 3, SHA256: strings.Repeat("0", 64), Parts: []string{"../../../etc/passwd"}}
	for name, files := range map[string][]File{
		"above":                {file("../a")},
		"absolute":             {file("/etc/passwd")},
		"backslash":            {file(`..\a`)},
		"nul":                  {file("a\x00b")},
		"itself":               {file(".")},
		"twice":                {file("a"), file("a")},
		"file and directory":   {file("a"), file("a/b")},
		"link out":             {{Path: "a", Link: "../../etc"}},
		"link to nothing":      {{Path: "a", Link: "b"}},
		"link to itself":       {{Path: "a", Link: "a"}},
		"link through a link":  {{Path: "a", Link: "b"}, {Path: "b", Link: "c"}, file("c")},
		"file below a link":    {file("a/b"), {Path: "c", Link: "a"}, file("c/d")},
		"part of another name": {part},
		"no digest":            {{Path: "a"}},
		"negative":             {{Path: "a", Size: -1}},
		"set user id":          {{Path: "a", Mode: 0o4755, SHA256: strings.Repeat("0", 64)}},
		"not in order":         {file("b"), file("a")},
	} {
		f := newFolder(t)
		m := manifest{Version: 1, PartSize: partSize, Files: files}
		m.Digest = digestOf(files)
		text, err := json.Marshal(m)
		require.NoError(t, err)
		require.NoError(t, f.Put(t.Context(), "k/c1/manifest.json", bytes.NewReader(text), int64(len(text))))
		_, err = Open(t.Context(), f, "k/c1")
		require.Error(t, err, name)
		require.NotErrorIs(t, err, archive.ErrNotFound, name)
	}
	good := manifest{Version: 1, PartSize: partSize, Files: []File{file("a")}}
	good.Digest = digestOf(good.Files)
	require.NoError(t, good.check(), "the others are refused for what they say")
	good.Digest = strings.Repeat("1", 64)
	require.ErrorIs(t, good.check(), ErrDamaged)
}

func TestSave_refusesNamesThatItCannotKeep(t *testing.T) {
	for _, name := range []string{"a\\b", "a\xff"} {
		_, err := Save(t.Context(), newFolder(t), "k/c1", memory{name: "x"}.source())
		require.ErrorContains(t, err, "cannot be kept")
	}
}
