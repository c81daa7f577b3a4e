package store

import (
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/raftnode/hostlog"
)

// stuckMeta is a wal-meta.db that is not written any more when stuck is set, as if the process had been killed.
type stuckMeta struct {
	*metadb.BoltMetaDB
	stuck atomic.Bool
}

func (m *stuckMeta) CommitState(s types.PersistentState) error {
	if m.stuck.Load() {
		return errCrash
	}
	return m.BoltMetaDB.CommitState(s)
}

// A segment is sealed first in its file, and later by a goroutine in wal-meta.db. If the process ended in between, the
// library refuses writes.
func TestOpen_afterACrashBetweenSealAndRotation(t *testing.T) {
	dir := filled(t, WAL, nil)
	meta := &stuckMeta{BoltMetaDB: &metadb.BoltMetaDB{}}
	w, err := wal.Open(WALPath(dir), wal.WithMetaStore(meta), wal.WithSegmentSize(4096), wal.WithLogger(hostlog.New(Config{}.withDefaults().Logger)))
	require.NoError(t, err)
	require.NoError(t, w.DeleteRange(1, 1))
	var stored []*raft.Log
	meta.stuck.Store(true)
	for _, e := range entriesFrom(1, 1000) {
		if err := w.StoreLog(e); err != nil {
			require.ErrorIs(t, err, wal.ErrSealed)
			break
		}
		stored = append(stored, e)
	}
	require.NoError(t, w.Close())
	require.Less(t, len(stored), 1000)
	requireWorks(t, dir, WAL, stored)
	requireWorks(t, copyDir(t, dir), Bolt, append(stored, entriesFrom(lastOf(stored)+1, 1)...))
}

// A crash may cut short a write that seals a segment, at the end of any sector. All entries that were acknowledged
// before must be there, and the log must accept writes.
func TestOpen_afterACrashWithinTheWriteThatSeals(t *testing.T) {
	dir := filled(t, WAL, nil)
	require.NoError(t, os.RemoveAll(WALPath(dir)))
	require.NoError(t, os.Mkdir(WALPath(dir), 0o700))
	small := func(c *Config) { c.segmentBytes = 4096 }
	meta := &stuckMeta{BoltMetaDB: &metadb.BoltMetaDB{}}
	w, err := wal.Open(WALPath(dir), wal.WithMetaStore(meta), wal.WithSegmentSize(4096), wal.WithLogger(hostlog.New(Config{}.withDefaults().Logger)))
	require.NoError(t, err)
	meta.stuck.Store(true)
	var stored []*raft.Log
	sizes := []int{}
	for _, e := range entriesFrom(1, 1000) {
		if w.StoreLog(e) != nil {
			break
		}
		stored = append(stored, e)
		sizes = append(sizes, lastByte(t, dir))
	}
	require.NoError(t, w.Close())
	require.NoError(t, setMark(filepath.Join(WALPath(dir), walMetaFile), walVotes))
	cuts := 0
	before, sealed := sizes[len(sizes)-2], sizes[len(sizes)-1]
	for cut := before; cut <= sealed; cut += 8 {
		torn := copyDir(t, dir)
		name := tail(t, torn)
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(name, int64(cut)))
		require.NoError(t, os.Truncate(name, info.Size()))
		if cut%sectorBytes != 0 && cut != before && cut != sealed {
			if _, err := walkSegment(name); err != nil {
				continue // a crash does not leave this
			}
		}
		cuts++
		want := stored[:len(stored)-1]
		if cut == sealed {
			want = stored
		}
		s := open(t, torn, WAL, small)
		requireHolds(t, s, want)
		next := entriesFrom(lastOf(want)+1, 20)
		require.NoError(t, s.StoreLogs(next), "cut after %d bytes of %d", cut-before, sealed-before)
		require.NoError(t, s.Close())
		s = open(t, torn, WAL, small)
		requireHolds(t, s, append(want[:len(want):len(want)], next...))
		require.NoError(t, s.Close())
	}
	require.GreaterOrEqual(t, cuts, 3)
}

func tail(t *testing.T, dir string) string {
	names, err := filepath.Glob(filepath.Join(WALPath(dir), "*.wal"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names[len(names)-1]
}

func lastByte(t *testing.T, dir string) int {
	w, err := walkSegment(tail(t, dir))
	require.NoError(t, err)
	return w.end
}

func TestOpen_damagedSegments(t *testing.T) {
	entries := entriesFrom(1, 200)
	spoil := func(at func(b []byte) int) func(string) {
		return func(name string) {
			b, err := os.ReadFile(name)
			require.NoError(t, err)
			b[at(b)] ^= 1
			require.NoError(t, os.WriteFile(name, b, 0o600))
		}
	}
	for name, c := range map[string]struct {
		spoil func(segments []string)
		says  string
	}{
		"in the middle of a sealed one": {func(s []string) { spoil(func(b []byte) int { return len(b) / 2 })(s[0]) }, "is damaged"},
		"at the end of a sealed one": {func(s []string) {
			spoil(func([]byte) int { w, _ := walkSegment(s[0]); return w.end - 12 })(s[0])
		}, "is damaged"},
		"in the middle of the newest": {func(s []string) {
			spoil(func([]byte) int { w, _ := walkSegment(s[len(s)-1]); return w.end / 2 })(s[len(s)-1])
		}, "is damaged"},
		"the newest is cut off": {func(s []string) {
			w, err := walkSegment(s[len(s)-1])
			require.NoError(t, err)
			require.NoError(t, os.Truncate(s[len(s)-1], int64(w.end/2)))
		}, "it was cut off"},
		"a sealed one is gone": {func(s []string) { require.NoError(t, os.Remove(s[1])) }, "is damaged"},
		"the list of segments": {func(s []string) {
			spoil(func([]byte) int { return 20 })(filepath.Join(filepath.Dir(s[0]), walMetaFile))
		}, "meta page 0 is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t, WAL, nil)
			s := open(t, dir, WAL)
			for i := range entries {
				require.NoError(t, s.StoreLogs(entries[i:i+1]))
			}
			require.NoError(t, s.Close())
			segments, err := filepath.Glob(filepath.Join(WALPath(dir), "*.wal"))
			require.NoError(t, err)
			require.Greater(t, len(segments), 3)
			c.spoil(segments)
			_, err = Open(Config{Dir: dir, Log: WAL})
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "mind raft remove")
			_, err = Open(Config{Dir: dir, Log: Bolt})
			require.ErrorContains(t, err, c.says, "damage is not moved")
		})
	}
}

// Before a power failure a log whose writes are not synced looks like any other, so the test checks the options
// themselves.
func TestStore_syncsEveryWrite(t *testing.T) {
	s := open(t, t.TempDir(), Bolt)
	defer func() { require.NoError(t, s.Close()) }()
	handle := reflect.ValueOf(s.votes).Elem().FieldByName("conn").Elem()
	for _, option := range []string{"NoSync", "NoGrowSync"} {
		require.Falsef(t, handle.FieldByName(option).Bool(), "%s is set: what was acknowledged can be gone after a power failure", option)
	}
}

// When raft installs a snapshot, it empties a log that must not have gaps, and continues after the snapshot.
func TestStore_goesOnBehindASnapshot(t *testing.T) {
	dir := filled(t, WAL, entriesFrom(1, 100))
	s := open(t, dir, WAL)
	require.True(t, s.IsMonotonic())
	require.NoError(t, s.DeleteRange(1, 100))
	require.NoError(t, s.StoreLogs(entriesFrom(500, 10)))
	require.NoError(t, s.Close())
	requireWorks(t, dir, WAL, entriesFrom(500, 10))
	requireWorks(t, dir, Bolt, append(entriesFrom(500, 10), entriesFrom(510, 1)...))
}

// If raft is killed before it has emptied the log, the log ends before the snapshot.
func TestStore_goesOnBehindASnapshotThatItWasKilledAt(t *testing.T) {
	dir := filled(t, WAL, entriesFrom(1, 100))
	s := open(t, dir, WAL)
	require.NoError(t, s.StoreLog(entriesFrom(500, 1)[0]))
	require.NoError(t, s.StoreLogs(entriesFrom(501, 9)))
	require.Error(t, s.StoreLogs(entriesFrom(509, 1)), "twice the same index")
	require.NoError(t, s.Close())
	requireWorks(t, dir, WAL, entriesFrom(500, 10))
}

func TestStore_whatIsDeletedIsNotRead(t *testing.T) {
	for _, kind := range []string{WAL, Bolt} {
		s := open(t, filled(t, kind, entriesFrom(1, 20)), kind)
		require.NoError(t, s.DeleteRange(1, 10))
		require.ErrorIs(t, s.GetLog(10, &raft.Log{}), raft.ErrLogNotFound)
		require.NoError(t, s.GetLog(11, &raft.Log{}))
		require.NoError(t, s.Close())
	}
}

// When a leader of another term overwrites entries, they are first removed from the end of the log.
func TestStore_cutsOffItsEnd(t *testing.T) {
	all := entriesFrom(1, 300)
	for _, keep := range []int{299, 150, 1} {
		dir := filled(t, WAL, all)
		s := open(t, dir, WAL)
		require.NoError(t, s.DeleteRange(uint64(keep)+1, 300))
		require.NoError(t, s.Close())
		requireWorks(t, dir, WAL, all[:keep])
	}
}

func TestWalkSegment_knowsTheFormat(t *testing.T) {
	require.EqualValues(t, 1, segment.FrameEntry)
	require.EqualValues(t, 2, segment.FrameIndex)
	require.EqualValues(t, 3, segment.FrameCommit)
	require.EqualValues(t, 1, wal.CodecBinaryV1)
	b := make([]byte, 2*sectorBytes)
	b[sectorBytes+7] = 9
	name := filepath.Join(t.TempDir(), "x.wal")
	require.NoError(t, os.WriteFile(name, b, 0o600))
	w, err := walkSegment(name)
	require.NoError(t, err)
	require.True(t, w.torn)
	require.Zero(t, w.end)
	require.NoError(t, os.WriteFile(name, b[:0], 0o600))
	w, err = walkSegment(name)
	require.NoError(t, err)
	require.False(t, w.torn)
}
