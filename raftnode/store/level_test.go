package store

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoteLevel(t *testing.T) {
	dir := t.TempDir()
	noted := func() uint32 {
		t.Helper()
		level, err := NotedLevel(dir)
		require.NoError(t, err)
		return level
	}
	require.Zero(t, noted())
	require.NoError(t, NoteLevel(dir, 3))
	require.EqualValues(t, 3, noted())

	name := filepath.Join(dir, levelFile)
	before, err := os.Stat(name)
	require.NoError(t, err)
	require.NoError(t, NoteLevel(dir, 3))
	require.NoError(t, NoteLevel(dir, 2), "a level is never lowered")
	after, err := os.Stat(name)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "it is written again although it says so already")

	require.NoError(t, NoteLevel(dir, 14))
	require.EqualValues(t, 14, noted())
}

// Any changed bit must be found, because a note of a higher level than the noted one would move the log too early.
func TestNotedLevel_damaged(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, NoteLevel(dir, 3))
	name := filepath.Join(dir, levelFile)
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	for bit := range len(whole) * 8 {
		spoiled := bytes.Clone(whole)
		spoiled[bit/8] ^= 1 << (bit % 8)
		require.NoError(t, os.WriteFile(name, spoiled, 0o600))
		_, err := NotedLevel(dir)
		require.ErrorContains(t, err, name+", is damaged", "bit %d", bit)
	}
	for end := range whole {
		require.NoError(t, os.WriteFile(name, whole[:end], 0o600))
		_, err := NotedLevel(dir)
		require.ErrorContains(t, err, "is damaged")
	}
	require.NoError(t, NoteLevel(dir, 3))
	level, err := NotedLevel(dir)
	require.NoError(t, err)
	require.EqualValues(t, 3, level, "a damaged note is not written again")
}

// TestOpen_choosesTheLog opens each kind of directory with each configuration.
func TestOpen_choosesTheLog(t *testing.T) {
	entries := entriesFrom(1, 20)
	directories := map[string]func(*testing.T) string{
		"new": func(t *testing.T) string { return t.TempDir() },
		"begun": func(t *testing.T) string {
			dir := t.TempDir()
			require.True(t, crashAt(t, dir, WAL, 3))
			require.FileExists(t, BoltPath(dir))
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "snapshots", "snapshots"), 0o700))
			return dir
		},
		"votes":   func(t *testing.T) string { return before(t, Bolt, nil) },
		"bolt":    func(t *testing.T) string { return before(t, Bolt, entries) },
		"moved":   func(t *testing.T) string { return filled(t, WAL, entries) },
		"old wal": func(t *testing.T) string { return before(t, WAL, entries) },
		"snapshot": func(t *testing.T) string {
			dir := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "snapshots", "snapshots", "2-17-1700000000000"), 0o700))
			return dir
		},
	}
	for kind, build := range directories {
		for _, configured := range []string{"", Bolt, WAL} {
			t.Run(kind+", configured "+configured, func(t *testing.T) {
				want := cmp.Or(configured, WAL)
				dir := build(t)
				s := open(t, dir, configured)
				require.NoError(t, s.Close())
				place, err := Find(dir, "")
				require.NoError(t, err)
				require.Equal(t, want, place.Log)
				switch kind {
				case "bolt", "moved", "old wal":
					requireWorks(t, dir, want, entries)
				case "votes":
					requireWorks(t, dir, want, nil)
				}
			})
		}
	}
}
