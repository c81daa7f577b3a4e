package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/raftnode/hostlog"
)

var someVotes = votes{term: 7, votedTerm: 6, votedFor: []byte("c2:7402")}

// entriesFrom returns n entries of different sizes.
func entriesFrom(first uint64, n int) (list []*raft.Log) {
	for i := first; i < first+uint64(n); i++ {
		list = append(list, &raft.Log{
			Index: i, Term: 1 + i/10, Type: raft.LogCommand,
			Data: bytes.Repeat([]byte{byte(i)}, int(i*37%3000)), Extensions: []byte(fmt.Sprint(i))[:i%2],
		})
	}
	return list
}

func open(t *testing.T, dir, kind string, change ...func(*Config)) *opened {
	t.Helper()
	cfg := Config{Dir: dir, Log: kind, segmentBytes: 64 << 10}
	for _, c := range change {
		c(&cfg)
	}
	s, err := Open(cfg)
	require.NoError(t, err)
	return s.(*opened)
}

// filled returns a directory with a log of a kind and with votes.
func filled(t *testing.T, kind string, entries []*raft.Log) string {
	dir := t.TempDir()
	s := open(t, dir, kind)
	if len(entries) > 0 {
		require.NoError(t, s.StoreLogs(entries))
	}
	require.NoError(t, someVotes.write(s))
	require.NoError(t, s.Close())
	return dir
}

// before returns the same as earlier versions of Mind wrote it.
func before(t *testing.T, kind string, entries []*raft.Log) string {
	dir := t.TempDir()
	var s interface {
		raft.LogStore
		raft.StableStore
		Close() error
	}
	var err error
	if kind == Bolt {
		s, err = raftboltdb.NewBoltStore(BoltPath(dir))
	} else {
		require.NoError(t, os.Mkdir(WALPath(dir), 0o700))
		s, err = wal.Open(WALPath(dir), wal.WithLogger(hostlog.New(Config{}.withDefaults().Logger)), wal.WithSegmentSize(64<<10))
	}
	require.NoError(t, err)
	if len(entries) > 0 {
		require.NoError(t, s.StoreLogs(entries))
	}
	require.NoError(t, someVotes.write(s))
	require.NoError(t, s.Close())
	return dir
}

func requireHolds(t *testing.T, s *opened, entries []*raft.Log) {
	t.Helper()
	first, err := s.FirstIndex()
	require.NoError(t, err)
	last, err := s.LastIndex()
	require.NoError(t, err)
	if len(entries) == 0 {
		require.Zero(t, last)
	} else {
		require.Equal(t, []uint64{entries[0].Index, entries[len(entries)-1].Index}, []uint64{first, last})
	}
	for _, want := range entries {
		got, err := readEntry(s, want.Index)
		require.NoError(t, err)
		require.Equal(t, want.Term, got.Term)
		require.Equal(t, want.Type, got.Type)
		require.Equal(t, string(want.Data), string(got.Data))
		require.Equal(t, string(want.Extensions), string(got.Extensions))
	}
	v, err := readVotes(s)
	require.NoError(t, err)
	require.Equal(t, someVotes, v)
}

// requireWorks checks that a directory has the entries and the votes, and that an appended entry is there after opening
// it again.
func requireWorks(t *testing.T, dir, kind string, entries []*raft.Log) {
	t.Helper()
	s := open(t, dir, kind)
	requireHolds(t, s, entries)
	next := entriesFrom(lastOf(entries)+1, 1)
	require.NoError(t, s.StoreLogs(next))
	require.NoError(t, s.Close())
	s = open(t, dir, kind)
	requireHolds(t, s, append(entries[:len(entries):len(entries)], next...))
	require.NoError(t, s.Close())
}

func lastOf(entries []*raft.Log) uint64 {
	if len(entries) == 0 {
		return 0
	}
	return entries[len(entries)-1].Index
}

var moves = []struct {
	name     string
	make     func(*testing.T, string, []*raft.Log) string
	from, to string
}{
	{"bolt of an earlier version to wal", before, Bolt, WAL},
	{"wal of an earlier version to wal", before, WAL, WAL},
	{"wal of an earlier version to bolt", before, WAL, Bolt},
	{"bolt to wal", filled, Bolt, WAL},
	{"wal to bolt", filled, WAL, Bolt},
}

func TestOpen_movesTheLog(t *testing.T) {
	logs := map[string][]*raft.Log{"empty": nil, "from 1": entriesFrom(1, 3000), "from 4711": entriesFrom(4711, 100)}
	for _, m := range moves {
		for name, entries := range logs {
			t.Run(m.name+", "+name, func(t *testing.T) {
				dir := m.make(t, m.from, entries)
				requireWorks(t, dir, m.to, entries)
				for _, left := range []string{asidePath(dir), oldWALPath(dir)} {
					require.NoFileExists(t, left)
				}
				if m.to == Bolt {
					require.NoDirExists(t, WALPath(dir))
				} else {
					w, err := WalkBolt(BoltPath(dir))
					require.NoError(t, err)
					require.Empty(t, w.Flaws)
					require.Empty(t, w.Indices(), "the old place is not emptied")
				}
			})
		}
	}
}

var errCrash = errors.New("the process is killed")

// A process may be killed at each step of a move. The next start must find all entries and votes, with each kind of log
// in its configuration.
func TestOpen_killedAtEachStepOfAMove(t *testing.T) {
	entries := entriesFrom(5, 1100) // two batches and several segments
	for _, m := range moves {
		t.Run(m.name, func(t *testing.T) {
			origin := m.make(t, m.from, entries)
			steps := 0
			for killed := true; killed; steps++ {
				for _, next := range []string{WAL, Bolt} {
					dir := copyDir(t, origin)
					killed = crashAt(t, dir, m.to, steps)
					requireWorks(t, dir, next, entries)
				}
			}
			least := map[string]int{WAL + Bolt: 4, Bolt + WAL: 8, WAL + WAL: 3}[m.from+m.to]
			require.GreaterOrEqual(t, steps, least, "a step is not announced")
		})
	}
}

// A process may be killed in a move, and the next one while it moves the log back.
func TestOpen_killedAgainInTheMoveBack(t *testing.T) {
	entries := entriesFrom(1, 30)
	for _, from := range []string{WAL, Bolt} {
		to := map[string]string{WAL: Bolt, Bolt: WAL}[from]
		origin := filled(t, from, entries)
		for first, killed := 0, true; killed; first++ {
			once := copyDir(t, origin)
			killed = crashAt(t, once, to, first)
			for second, again := 0, true; again; second++ {
				dir := copyDir(t, once)
				again = crashAt(t, dir, from, second)
				requireWorks(t, dir, WAL, entries)
			}
		}
	}
}

// crashAt opens a directory and simulates that the process is killed at a step: files are not closed in order. It
// reports whether there was such a step.
func crashAt(t *testing.T, dir, kind string, at int) bool {
	t.Helper()
	left := at
	cfg := Config{Dir: dir, Log: kind, segmentBytes: 64 << 10, step: func(string) error {
		if left--; left < 0 {
			return errCrash
		}
		return nil
	}}
	s, err := Open(cfg)
	if err != nil {
		require.ErrorIs(t, err, errCrash)
		return true
	}
	require.NoError(t, s.Close())
	return false
}

func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

func TestOpen_logsOfBothKindsOfAnEarlierVersion(t *testing.T) {
	dir := before(t, Bolt, entriesFrom(1, 10))
	other := before(t, WAL, entriesFrom(1, 20))
	require.NoError(t, os.Rename(WALPath(other), WALPath(dir)))
	for _, kind := range []string{WAL, Bolt} {
		_, err := Open(Config{Dir: dir, Log: kind})
		require.ErrorContains(t, err, "a log of both kinds")
	}
	// After one of them is removed, the other is used.
	require.NoError(t, os.RemoveAll(WALPath(dir)))
	requireWorks(t, dir, WAL, entriesFrom(1, 10))
}

func TestOpen_whatIsGoneIsNotBegunAgain(t *testing.T) {
	dir := filled(t, WAL, entriesFrom(1, 10))
	require.NoError(t, os.Rename(BoltPath(dir), BoltPath(dir)+".moved"))
	_, err := Open(Config{Dir: dir})
	require.ErrorContains(t, err, "the votes are gone")
	require.NoError(t, os.Rename(BoltPath(dir)+".moved", BoltPath(dir)))

	require.NoError(t, os.Rename(WALPath(dir), WALPath(dir)+".moved"))
	_, err = Open(Config{Dir: dir})
	require.ErrorContains(t, err, filepath.Join(WALPath(dir), walMetaFile)+" is damaged (it is gone)")
	_, err = Open(Config{Dir: dir, Log: Bolt})
	require.ErrorContains(t, err, "it is gone")
}

func TestOpen_oneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, WAL)
	lock, err := os.Open(dir)
	require.NoError(t, err)
	defer lock.Close()
	require.ErrorIs(t, flock(lock, 2), ErrInUse) // LOCK_EX
	_, err = Lock(dir, Place{Log: WAL}, 0)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, s.Close())
	require.NoError(t, flock(lock, 2))
}

// Versions that do not know the mark must refuse a directory whose log was moved, or they would forget entries that
// they have acknowledged. They check the file as WalkBolt does.
func TestMark_isDamageToThoseWhoDoNotKnowIt(t *testing.T) {
	dir := filled(t, WAL, entriesFrom(1, 10))
	for _, path := range []string{BoltPath(dir), filepath.Join(WALPath(dir), walMetaFile)} {
		w, err := WalkBolt(path)
		require.NoError(t, err)
		require.Empty(t, w.Flaws)
		require.True(t, w.marked)
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		// With another name the mark is as unknown to this version as to those.
		require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(raw, []byte(mark), []byte(mark[:len(mark)-1]+"!")), 0o600))
		w, err = WalkBolt(path)
		require.NoError(t, err)
		require.NotEmpty(t, w.Flaws)
		require.Contains(t, w.Flaws[0].Problem, "that does not belong there")
	}
}
