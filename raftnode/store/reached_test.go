package store

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft-wal/metadb"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// killed returns two directories of a process that has written entries, one at a time: as it leaves them when it is
// killed, and when it stops in order.
func killed(t *testing.T, n int) (killed, stopped string) {
	t.Helper()
	dir := filled(t, WAL, nil)
	s := open(t, dir, WAL)
	for _, e := range entriesFrom(1, n) {
		require.NoError(t, s.StoreLog(e))
	}
	left := copyDir(t, dir)
	require.NoError(t, s.Close())
	return left, dir
}

// A newest segment that was removed or emptied looks like one that was listed and not yet made. It must be refused.
func TestOpen_theNewestSegmentIsGone(t *testing.T) {
	lose := map[string]func(name string) error{
		"removed":          os.Remove,
		"emptied":          func(name string) error { return os.Truncate(name, 0) },
		"cut in its head":  func(name string) error { return os.Truncate(name, segmentHeader/2) },
		"cut in the first": func(name string) error { return os.Truncate(name, segmentHeader+20) },
		"zeros": func(name string) error {
			info, err := os.Stat(name)
			if err == nil {
				err = os.WriteFile(name, make([]byte, info.Size()), 0o600)
			}
			return err
		},
	}
	logs := map[string]func(*testing.T) string{
		"the only segment, killed": func(t *testing.T) string { left, _ := killed(t, 3); return left },
		"one of several, killed":   func(t *testing.T) string { left, _ := killed(t, 200); return left },
		"one of several, stopped":  func(t *testing.T) string { _, left := killed(t, 200); return left },
	}
	for how, lose := range lose {
		for kind, build := range logs {
			t.Run(how+", "+kind, func(t *testing.T) {
				dir := build(t)
				require.NoError(t, lose(tail(t, dir)))
				for _, log := range []string{WAL, Bolt, ""} {
					_, err := Open(Config{Dir: dir, Log: log})
					require.ErrorContains(t, err, "is damaged")
					require.ErrorContains(t, err, "mind raft remove")
				}
			})
		}
	}
}

// After a stop in order even the loss of the newest write must be found, which happens on a disk that reports a write
// too early.
func TestOpen_theNewestWriteIsGoneAfterAStop(t *testing.T) {
	dir := filled(t, WAL, nil)
	s := open(t, dir, WAL)
	require.NoError(t, s.StoreLogs(entriesFrom(1, 10)))
	end := lastByte(t, dir)
	require.NoError(t, s.StoreLogs(entriesFrom(11, 1)))
	require.NoError(t, s.Close())
	name := tail(t, dir)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	clear(b[end:])
	require.NoError(t, os.WriteFile(name, b, 0o600))
	_, err = Open(Config{Dir: dir, Log: WAL})
	require.ErrorContains(t, err, "it ends at entry 10, and has reached entry 11 before")
}

// Entries that raft has removed from the end of its log must not count as lost, even if the process is killed at any
// step of that.
func TestOpen_afterTheEndWasRemoved(t *testing.T) {
	all := entriesFrom(1, 60)
	for _, low := range []uint64{1, 2, 30, 60} {
		dir := filled(t, WAL, all)
		s := open(t, dir, WAL)
		require.NoError(t, s.wal.retreat(low, 60))
		requireOpens(t, copyDir(t, dir), 60)
		require.NoError(t, s.DeleteRange(low, 60))
		requireOpens(t, copyDir(t, dir), low-1)
		require.NoError(t, s.StoreLogs(entriesFrom(low, 5)))
		requireOpens(t, copyDir(t, dir), low+4)
		require.NoError(t, s.DeleteRange(1, low+2), "the beginning")
		requireOpens(t, copyDir(t, dir), low+4)
		require.NoError(t, s.Close())
		requireOpens(t, dir, low+4)
	}
}

func requireOpens(t *testing.T, dir string, last uint64) {
	t.Helper()
	s := open(t, dir, WAL)
	got, err := s.LastIndex()
	require.NoError(t, err)
	require.Equal(t, last, got)
	require.NoError(t, s.Close())
}

// Entries that a killed process had written but not synced count as written after the next start, so the start must
// sync them.
func TestOpen_syncsWhatItFinds(t *testing.T) {
	dir, _ := killed(t, 3)
	var steps []string
	s := open(t, dir, WAL, func(c *Config) { c.step = func(what string) error { steps = append(steps, what); return nil } })
	require.NoError(t, s.Close())
	require.Contains(t, steps, "sync what was written")
}

// After a bit of the list of segments has changed, Open must fail, or all entries must be there.
func TestOpen_anyBitOfTheListOfSegments(t *testing.T) {
	entries := entriesFrom(1, 90)
	dir := filled(t, WAL, entries)
	s := open(t, dir, WAL)
	require.NoError(t, s.DeleteRange(1, 7))
	require.NoError(t, s.Close())
	entries = entries[7:]
	name := filepath.Join(WALPath(dir), walMetaFile)
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	list := listIn(t, name)
	refused := 0
	for at := range list {
		changed := bytes.Clone(list)
		changed[at] ^= 1 << (at % 4) // mostly turns a digit into another one
		spoiled := copyDir(t, dir)
		b := bytes.ReplaceAll(whole, list, changed)
		require.NotEqual(t, whole, b)
		require.NoError(t, os.WriteFile(filepath.Join(WALPath(spoiled), walMetaFile), b, 0o600))
		s, err := Open(Config{Dir: spoiled, Log: WAL})
		if err != nil {
			refused++
			continue
		}
		first, err := s.FirstIndex()
		require.NoError(t, err)
		last, err := s.LastIndex()
		require.NoError(t, err)
		require.Equal(t, entries[len(entries)-1].Index, last, "byte %d, %q", at, changed[max(0, at-30):at+1])
		// The beginning of the log is stored nowhere else. But raft does not start if entries after its snapshot are
		// missing.
		require.LessOrEqual(t, first, last)
		for index := first; index <= last; index++ {
			_, err := readEntry(s, index)
			require.NoError(t, err)
		}
		require.NoError(t, s.Close())
	}
	require.Greater(t, refused, len(list)/3)
}

// listIn returns the current list of segments in wal-meta.db.
func listIn(t *testing.T, path string) (list []byte) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		list = bytes.Clone(tx.Bucket([]byte(metadb.MetaBucket)).Get([]byte(metadb.MetaKey)))
		return nil
	}))
	require.NoError(t, db.Close())
	require.NotEmpty(t, list)
	return list
}

// A new segment is begun in the background, and may be listed before wrote is called for the write that filled the old
// one. That write must not count as the first one to the new segment.
func TestReached_theFirstWriteIntoEachSegmentIsNoted(t *testing.T) {
	dir := filled(t, WAL, nil)
	s := open(t, dir, WAL)
	require.NoError(t, s.StoreLogs(entriesFrom(1, 10)))
	log := s.wal
	log.newest.Store(12) // listed while entry 11 is written to the segment before
	require.NoError(t, s.StoreLogs(entriesFrom(11, 1)))
	require.Less(t, log.reached, uint64(12))
	require.NoError(t, s.StoreLogs(entriesFrom(12, 1)))
	reached, err := readReached(log.votes)
	require.NoError(t, err)
	require.EqualValues(t, 12, reached, "the new segment has an entry, and that is known")
}
