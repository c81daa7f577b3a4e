package safedir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func list(t *testing.T, dir string) (entries []string) {
	t.Helper()
	d, err := Open(dir)
	require.NoError(t, err)
	defer d.Close()
	left := 1000
	require.NoError(t, d.Walk(t.Context(), &left, func(e Entry) error {
		text := fmt.Sprintf("%s %d", e.Path, e.Size)
		switch {
		case e.Dir:
			text = e.Path + "/"
		case e.Outside != "":
			text = e.Path + " -> " + e.Outside
		}
		entries = append(entries, text)
		return nil
	}))
	slices.Sort(entries)
	return entries
}

func write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

func TestAWalkStaysInside(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "checkpoint")
	write(t, filepath.Join(base, "secret", "s"), "secret")
	write(t, filepath.Join(dir, "a"), "x")
	write(t, filepath.Join(dir, "sub", "b"), "yy")
	for link, to := range map[string]string{
		"inside": "sub/b", "sub/up": "../a", "out": "../secret/s", "dir-out": "../secret", "absolute": filepath.Join(base, "secret", "s"), "nowhere": "gone", "round": "round",
		"proc": "/proc/self/root",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	require.Equal(t, []string{
		"a 1", "absolute -> " + filepath.Join(base, "secret", "s"), "dir-out -> ../secret", "fifo 0", "inside 2", "nowhere -> gone", "out -> ../secret/s",
		"proc -> /proc/self/root", "round -> round", "sub/", "sub/b 2", "sub/up 1",
	}, list(t, dir))
}

func TestBelowTakesNoLink(t *testing.T) {
	base := t.TempDir()
	write(t, filepath.Join(base, "secret", "s"), "secret")
	write(t, filepath.Join(base, "root", "a", "b", "f"), "x")
	require.NoError(t, os.Symlink("../secret", filepath.Join(base, "root", "link")))
	require.NoError(t, os.Symlink("a", filepath.Join(base, "root", "within")))
	d, err := Open(filepath.Join(base, "root"))
	require.NoError(t, err)
	defer d.Close()
	for _, name := range []string{".", "a", "a/b"} {
		below, err := d.Below(name)
		require.NoError(t, err, name)
		require.NoError(t, below.Close())
	}
	for _, name := range []string{"link", "within", "within/b", "../secret", "a/../../secret", "/etc", "", "a/b/f"} {
		_, err := d.Below(name)
		require.Error(t, err, name)
	}
}

func TestAWalkIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 3000 {
		require.NoError(t, os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o700))
	}
	d, err := Open(dir)
	require.NoError(t, err)
	defer d.Close()
	visited, left := 0, 100
	count := func(Entry) error { visited++; return nil }
	require.ErrorIs(t, d.Walk(t.Context(), &left, count), ErrTooLarge)
	require.Equal(t, 100, visited)
	dirs, all, err := d.Children(1000)
	require.NoError(t, err)
	require.False(t, all)
	require.Len(t, dirs, 1000)
	dirs, all, err = d.Children(3000)
	require.NoError(t, err)
	require.True(t, all)
	require.Len(t, dirs, 3000)

	deep := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(deep, strings.Repeat("d/", 200)), 0o700))
	d, err = Open(deep)
	require.NoError(t, err)
	defer d.Close()
	left = 1000
	require.ErrorIs(t, d.Walk(t.Context(), &left, count), ErrTooDeep)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	left = 1000
	d, err = Open(deep)
	require.NoError(t, err)
	defer d.Close()
	require.ErrorIs(t, d.Walk(ctx, &left, count), context.Canceled)
	stop := errors.New("stop")
	d, err = Open(deep)
	require.NoError(t, err)
	defer d.Close()
	require.ErrorIs(t, d.Walk(t.Context(), &left, func(Entry) error { return stop }), stop)
}

// A directory on the path is swapped with a link repeatedly.
func TestAWalkIsNotLedOutByASwap(t *testing.T) {
	base := t.TempDir()
	write(t, filepath.Join(base, "secret", "f"), "secret")
	write(t, filepath.Join(base, "root", "sub", "f"), "text")
	aside := filepath.Join(base, "aside")
	require.NoError(t, os.Symlink(filepath.Join(base, "secret"), aside))
	done := make(chan error, 1)
	go func() {
		var err error
		for range 4000 {
			if err = unix.Renameat2(unix.AT_FDCWD, aside, unix.AT_FDCWD, filepath.Join(base, "root", "sub"), unix.RENAME_EXCHANGE); err != nil {
				break
			}
		}
		done <- err
	}()
	for {
		d, err := Open(filepath.Join(base, "root"))
		require.NoError(t, err)
		left := 1000
		_ = d.Walk(t.Context(), &left, func(e Entry) error {
			if e.Path == "sub/f" {
				require.EqualValues(t, 4, e.Size)
			}
			return nil
		})
		require.NoError(t, d.Close())
		select {
		case err := <-done:
			require.NoError(t, err)
			return
		default:
		}
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		path, dir string
		within    bool
	}{
		{"/a/b", "/a", true},
		{"/a", "/a", true},
		{"/a", "/", true},
		{"/", "/", true},
		{"/ab", "/a", false},
		{"/a", "/a/b", false},
		{"/a/../b", "/a", false},
		{"/a/b/..", "/a/", true},
		{"/a/..b", "/a", true},
		{"a/b", "a", true},
		{"ab", "a", false},
		{"../a", "a", false},
		{"/a", "a", false},
		{"a", "/", false},
	} {
		require.Equal(t, c.within, Within(c.path, c.dir), "%s in %s", c.path, c.dir)
	}
}
