package durable

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	require.NoError(t, WriteFile(name, []byte("one"), 0o640))
	require.NoError(t, WriteFile(name, []byte("two"), 0o640))
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "two", string(text))
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode(), "whatever the umask says")
	require.ErrorIs(t, WriteFile(filepath.Join(dir, "none", "f"), nil, 0o600), os.ErrNotExist)
}

func TestManyMayWriteOneFile(t *testing.T) {
	dir := t.TempDir()
	var writers sync.WaitGroup
	for i := range 20 {
		writers.Go(func() {
			if err := WriteFile(filepath.Join(dir, "f"), fmt.Appendf(nil, "%0100d", i), 0o600); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	text, err := os.ReadFile(filepath.Join(dir, "f"))
	require.NoError(t, err)
	require.Len(t, text, 100)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestWhatIsDiscardedLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "f"), 0o600)
	require.NoError(t, err)
	_, err = f.Write([]byte("x"))
	require.NoError(t, err)
	f.Discard()
	require.ErrorIs(t, f.Commit(), os.ErrClosed)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)

	f, err = Create(filepath.Join(dir, "f"), 0o600)
	require.NoError(t, err)
	require.NoError(t, f.Commit())
	f.Discard() // has no effect after Commit
	require.FileExists(t, filepath.Join(dir, "f"))
}

// A killed process left a temporary file. A later process with the same id must choose another name.
func TestWhatAKilledProcessLeft(t *testing.T) {
	dir := t.TempDir()
	for n := aside.Load(); n < aside.Load()+3; n++ {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s%d-%d", asidePrefix, os.Getpid(), n+1)), []byte("half"), 0o600))
	}
	require.NoError(t, WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600))
	require.NoError(t, Sweep(dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "f", entries[0].Name())
}

func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b", "c")
	require.NoError(t, MkdirAll(deep, 0o700))
	require.NoError(t, MkdirAll(deep, 0o700), "it is there")
	require.NoError(t, os.Symlink(deep, filepath.Join(dir, "link")))
	require.NoError(t, MkdirAll(filepath.Join(dir, "link"), 0o700))
	require.NoError(t, WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.Error(t, MkdirAll(filepath.Join(dir, "file"), 0o700))

	require.NoError(t, WriteFile(filepath.Join(deep, "f"), []byte("x"), 0o600))
	require.NoError(t, RenameTree(filepath.Join(dir, "a"), filepath.Join(dir, "z")))
	require.FileExists(t, filepath.Join(dir, "z", "b", "c", "f"))
	require.NoError(t, SwapNames(filepath.Join(dir, "z"), filepath.Join(dir, "file")))
	require.FileExists(t, filepath.Join(dir, "z"))
	require.FileExists(t, filepath.Join(dir, "file", "b", "c", "f"))
	require.ErrorIs(t, SwapNames(filepath.Join(dir, "z"), filepath.Join(dir, "none")), os.ErrNotExist)
	require.NoDirExists(t, filepath.Join(dir, "a"))
}
