package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var errCut = errors.New("the power is gone")

// model is a file system in memory with power cuts. Synced data survives a power cut. Of the rest anything may survive:
// any subset of the changes of a directory, and of the data of a file nothing, a part, or all. The field most is the
// number of calls after which the power fails.
type model struct {
	calls, most int
	dirs        map[string]*modelDir
}

// modelDir is a directory: its current names, its names on disk, and the changes that are not on disk yet.
type modelDir struct {
	now, disk map[string]*modelFile
	pending   []change
}

// change maps names to their new files; a name that maps to nil is removed. A rename within one directory is one change
// of two names.
type change map[string]*modelFile

type modelFile struct {
	model *model
	name  string
	// data is the written content, and disk the synced content.
	data, disk []byte
	synced     bool
	dir        bool
}

func newModel(most int) *model {
	root := &modelDir{now: map[string]*modelFile{}, disk: map[string]*modelFile{}}
	return &model{most: most, dirs: map[string]*modelDir{"/": root}}
}

func (m *model) call() error {
	if m.calls == m.most {
		return errCut
	}
	m.calls++
	return nil
}

func (m *model) change(dir string, c change) {
	d := m.dirs[dir]
	d.pending = append(d.pending, c)
	apply(d.now, c)
}

func apply(names map[string]*modelFile, c change) {
	for name, f := range c {
		if f == nil {
			delete(names, name)
		} else {
			names[name] = f
		}
	}
}

func (m *model) Create(name string, _ os.FileMode) (file, error) {
	if err := m.call(); err != nil {
		return nil, err
	}
	dir, base := filepath.Split(name)
	f := &modelFile{model: m, name: name}
	m.change(filepath.Clean(dir), change{base: f})
	return f, nil
}

func (m *model) Mkdir(dir string, _ os.FileMode) error {
	parent, base := filepath.Dir(dir), filepath.Base(dir)
	switch {
	case m.dirs[parent] == nil:
		return fs.ErrNotExist
	case m.dirs[dir] != nil:
		return fs.ErrExist
	}
	if err := m.call(); err != nil {
		return err
	}
	m.dirs[dir] = &modelDir{now: map[string]*modelFile{}, disk: map[string]*modelFile{}}
	m.change(parent, change{base: {dir: true, synced: true}})
	return nil
}

func (m *model) Rename(from, to string) error {
	if err := m.call(); err != nil {
		return err
	}
	f := m.dirs[filepath.Dir(from)].now[filepath.Base(from)]
	if filepath.Dir(from) == filepath.Dir(to) {
		m.change(filepath.Dir(to), change{filepath.Base(from): nil, filepath.Base(to): f})
		return nil
	}
	m.change(filepath.Dir(to), change{filepath.Base(to): f})
	m.change(filepath.Dir(from), change{filepath.Base(from): nil})
	return nil
}

func (m *model) Remove(name string) error {
	if err := m.call(); err != nil {
		return err
	}
	m.change(filepath.Dir(name), change{filepath.Base(name): nil})
	return nil
}

func (m *model) SyncDir(dir string) error {
	if err := m.call(); err != nil {
		return err
	}
	d := m.dirs[dir]
	d.disk, d.pending = maps.Clone(d.now), nil
	return nil
}

func (f *modelFile) Name() string { return f.name }

func (f *modelFile) Write(p []byte) (int, error) {
	if err := f.model.call(); err != nil {
		return 0, err
	}
	f.data, f.synced = append(f.data, p...), false
	return len(p), nil
}

func (f *modelFile) Sync() error {
	if err := f.model.call(); err != nil {
		return err
	}
	f.disk, f.synced = slices.Clone(f.data), true
	return nil
}

func (f *modelFile) Close() error { return f.model.call() }

// outcomes calls see with each content that a file may have after a power cut at this moment; for a missing file with
// "none".
func (m *model) outcomes(name string, see func(content string)) {
	contents := func(f *modelFile) []string {
		switch {
		case f == nil:
			return []string{"none"}
		case f.synced:
			return []string{string(f.disk)}
		}
		return []string{string(f.disk), "", string(f.data[:len(f.data)/2]), string(f.data)}
	}
	for _, there := range m.reachable(filepath.Dir(name)) {
		if !there {
			see("none")
			continue
		}
		d := m.dirs[filepath.Dir(name)]
		for kept := range 1 << len(d.pending) {
			names := maps.Clone(d.disk)
			for i, c := range d.pending {
				if kept&(1<<i) != 0 {
					apply(names, c)
				}
			}
			for _, content := range contents(names[filepath.Base(name)]) {
				see(content)
			}
		}
	}
}

// reachable returns whether a directory exists after a power cut: true, false, or both if both are possible.
func (m *model) reachable(dir string) []bool {
	if dir == "/" {
		return []bool{true}
	}
	parent := m.dirs[filepath.Dir(dir)]
	if m.dirs[dir] == nil || parent == nil {
		return []bool{false}
	}
	if parent.disk[filepath.Base(dir)] == nil {
		return []bool{true, false}
	}
	return m.reachable(filepath.Dir(dir))
}

// cuts runs do once for each of its calls, with a power cut after that call, and returns all contents that the file may
// have then. done holds those that it may have when do had returned without an error.
func cuts(t *testing.T, name string, prepare, do func(s steps) error) (found []string, done map[string]bool) {
	t.Helper()
	seen, done := map[string]bool{}, map[string]bool{}
	for most := 0; ; most++ {
		m := newModel(1 << 20)
		s := steps{m}
		require.NoError(t, prepare(s))
		m.calls, m.most = 0, most
		err := do(s)
		m.outcomes(name, func(content string) {
			seen[content] = true
			if err == nil {
				done[content] = true
			}
		})
		if err == nil {
			return slices.Sorted(maps.Keys(seen)), done
		}
		require.ErrorIs(t, err, errCut)
	}
}

func nothing(steps) error { return nil }

func write(name, text string) func(s steps) error {
	return func(s steps) error { return s.writeFile(name, []byte(text), 0o600) }
}

func TestAPowerCutLeavesTheOldFileOrTheNewOne(t *testing.T) {
	found, done := cuts(t, "/f", write("/f", "the old one"), write("/f", "the new one"))
	require.Equal(t, []string{"the new one", "the old one"}, found)
	require.Equal(t, map[string]bool{"the new one": true}, done)

	found, done = cuts(t, "/f", nothing, write("/f", "the new one"))
	require.Equal(t, []string{"none", "the new one"}, found)
	require.Equal(t, map[string]bool{"the new one": true}, done)
}

func TestAPowerCutLeavesDirectoriesThatWereMade(t *testing.T) {
	_, done := cuts(t, "/a/b/f", nothing, func(s steps) error {
		return errors.Join(s.mkdirAll("/a/b", 0o700), s.writeFile("/a/b/f", []byte("text"), 0o600))
	})
	require.Equal(t, map[string]bool{"text": true}, done)
}

func TestARenamedFileIsFoundAfterAPowerCut(t *testing.T) {
	prepare := func(s steps) error {
		return errors.Join(s.mkdirAll("/a", 0o700), s.mkdirAll("/b", 0o700), s.writeFile("/a/f", []byte("text"), 0o600))
	}
	move := func(s steps) error { return s.rename("/a/f", "/b/f") }
	_, done := cuts(t, "/b/f", prepare, move)
	require.Equal(t, map[string]bool{"text": true}, done)
	_, done = cuts(t, "/a/f", prepare, move)
	require.Equal(t, map[string]bool{"none": true}, done)
}

// If the model accepted wrong orders of calls, the tests above would show nothing.
func TestTheModelNoticesWrongOrders(t *testing.T) {
	for name, wrong := range map[string]func(s steps, f file) error{
		"renamed before it is synced": func(s steps, f file) error {
			return firstOf(func() error { return s.Rename(f.Name(), "/f") }, f.Sync, func() error { return s.SyncDir("/") })
		},
		"never synced": func(s steps, f file) error {
			return firstOf(func() error { return s.Rename(f.Name(), "/f") }, func() error { return s.SyncDir("/") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, _ := cuts(t, "/f", write("/f", "the old one"), func(s steps) error {
				f, err := s.Create("/new", 0o600)
				if err == nil {
					_, err = f.Write([]byte("the new one"))
				}
				if err != nil {
					return err
				}
				return wrong(s, f)
			})
			require.Contains(t, found, "", "an empty file in the place of both")
		})
	}
	t.Run("the name is not synced", func(t *testing.T) {
		_, done := cuts(t, "/f", write("/f", "the old one"), func(s steps) error {
			f, err := s.Create("/new", 0o600)
			if err == nil {
				_, err = f.Write([]byte("the new one"))
			}
			if err != nil {
				return err
			}
			return firstOf(f.Sync, func() error { return s.Rename(f.Name(), "/f") })
		})
		require.Contains(t, done, "the old one", "it had returned")
	})
}

func firstOf(calls ...func() error) error {
	for _, call := range calls {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

// failing refuses one kind of call, as a full or broken disk does.
type failing struct {
	disk
	sync, rename error
}

type failingFile struct {
	file
	sync error
}

func (f failing) Create(name string, perm os.FileMode) (file, error) {
	made, err := f.disk.Create(name, perm)
	return failingFile{made, f.sync}, err
}

func (f failing) Rename(from, to string) error {
	if f.rename != nil {
		return f.rename
	}
	return f.disk.Rename(from, to)
}

func (f failingFile) Sync() error { return f.sync }

func TestADiskThatRefusesLeavesTheOldFileAndNothingElse(t *testing.T) {
	refused := errors.New("no")
	for i, disk := range []disk{failing{disk: system{}, sync: refused}, failing{disk: system{}, rename: refused}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "f")
			require.NoError(t, WriteFile(name, []byte("old"), 0o600))
			require.ErrorIs(t, steps{disk}.writeFile(name, []byte("new"), 0o600), refused)
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			require.Equal(t, "old", string(text))
			entries, err := os.ReadDir(filepath.Dir(name))
			require.NoError(t, err)
			require.Len(t, entries, 1)
		})
	}
}
