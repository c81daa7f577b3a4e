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

// killed is what a process leaves that is killed after it has written entries, one at a time; stopped is what it leaves when it
// stops in order.
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

// The newest segment is gone, or has nothing any more: both look like a segment that was listed and not yet made.
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

// After a stop in order even the loss of the newest write is found, as of a disk that did not write what it should have.
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

// What raft removes from the end of its log is not missed, also when the process is killed at any point of it.
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

// Entries that a killed process had written and not yet synced count from the next start on, so that start syncs them.
func TestOpen_syncsWhatItFinds(t *testing.T) {
	dir, _ := killed(t, 3)
	var steps []string
	s := open(t, dir, WAL, func(c *Config) { c.step = func(what string) error { steps = append(steps, what); return nil } })
	require.NoError(t, s.Close())
	require.Contains(t, steps, "sync what was written")
}

// Any bit of the list of segments: nothing is lost, or it is said.
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
		changed[at] ^= 1 << (at % 4) // of a digit to another one, most often
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
		// Where the log begins is nowhere else, but raft does not start when entries are missing behind its snapshot.
		require.LessOrEqual(t, first, last)
		for index := first; index <= last; index++ {
			_, err := readEntry(s, index)
			require.NoError(t, err)
		}
		require.NoError(t, s.Close())
	}
	require.Greater(t, refused, len(list)/3)
}

// listIn is the newest list of segments in wal-meta.db.
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

// A segment that is full is followed by a new one in the background, which may be listed before the write that filled the old
// one looks: that write is not one into the new segment.
func TestReached_theFirstWriteIntoEachSegmentIsNoted(t *testing.T) {
	dir := filled(t, WAL, nil)
	s := open(t, dir, WAL)
	require.NoError(t, s.StoreLogs(entriesFrom(1, 10)))
	log := s.wal
	log.newest.Store(12) // listed, while entry 11 is written into the segment before
	require.NoError(t, s.StoreLogs(entriesFrom(11, 1)))
	require.Less(t, log.reached, uint64(12))
	require.NoError(t, s.StoreLogs(entriesFrom(12, 1)))
	reached, err := readReached(log.votes)
	require.NoError(t, err)
	require.EqualValues(t, 12, reached, "the new segment has an entry, and that is known")
}
