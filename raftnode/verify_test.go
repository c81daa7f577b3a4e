package raftnode

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/raftnode/store"
	"github.com/mindcoordinator/mind/raftnode/verify"
)

// replayedChain makes a chain a verify.Replay.
type replayedChain struct{ *chain }

func (c replayedChain) Hash() string { return hex.EncodeToString(c.state.Hash[:8]) }

func (c replayedChain) Decode(entry []byte) error {
	if len(entry) > 0 && int(entry[0]) >= len(entry) {
		return errors.New("a command is cut off")
	}
	return nil
}

func (c replayedChain) Check() []string {
	for _, command := range c.state.Commands {
		if command == "impossible" {
			return []string{"the impossible happened"}
		}
	}
	return nil
}

func verified(t *testing.T, dir string, change ...func(*verify.Config)) *verify.Report {
	t.Helper()
	cfg := verify.Config{Dir: dir, New: func() verify.Replay { return replayedChain{&chain{}} }}
	for _, c := range change {
		c(&cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := verify.Data(ctx, cfg)
	require.NoError(t, err)
	return r
}

func problems(r *verify.Report) string {
	raw, _ := json.Marshal(r.Flaws)
	return string(raw)
}

// written returns the data directory of a replica that has executed a number of commands and taken snapshots, and its
// last state.
func written(t *testing.T, store string, trailing uint64, commands int) (dir string, last chainState) {
	tune := func(_ string, c *Config) { c.LogStore, c.TrailingLogs = store, trailing }
	runCluster(t, 1, tune, func(t *testing.T, c *cluster) {
		n := c.leader()
		for i := range commands {
			c.propose(n, fmt.Sprintf("command %04d %s", i, strings.Repeat("x", i%300)))
			if i%(commands/3+1) == commands/3 {
				require.NoError(t, n.TakeSnapshot(t.Context()))
			}
		}
		last = c.sms["c1"].copy()
		c.stop("c1")
		dir = filepath.Join(c.dir, "c1")
	})
	return dir, last
}

func TestVerify_soundData(t *testing.T) {
	for _, store := range []string{StoreBolt, StoreWAL} {
		for _, trailing := range []uint64{5, 4096} {
			t.Run(fmt.Sprint(store, trailing), func(t *testing.T) {
				dir, last := written(t, store, trailing, 100)
				before := bytesOf(t, dir)
				r := verified(t, dir)
				require.True(t, r.Sound(), problems(r))
				require.Equal(t, before, bytesOf(t, dir), "verifying changed the data")
				require.Equal(t, store, r.LogStore)
				require.Equal(t, hex.EncodeToString(last.Hash[:8]), r.State.Hash)
				require.Equal(t, last.Index, r.State.Index)
				require.Len(t, r.Snapshots, 2)
				require.Equal(t, last.Index, r.Log.LastIndex)
				require.Equal(t, addrOf("c1"), r.Log.VotedFor)
				require.Positive(t, r.Log.CurrentTerm)
				if trailing == 5 {
					require.Greater(t, r.Log.FirstIndex, uint64(1))
					require.NotEmpty(t, r.State.From)
				} else {
					require.Equal(t, uint64(1), r.Log.FirstIndex)
					require.Equal(t, 100, r.Log.Commands)
					require.Equal(t, 1, r.Log.Configurations)
					require.Empty(t, r.State.From, "it is replayed from the beginning, past both snapshots")
				}
				at := r.Snapshots[1].Index
				r = verified(t, dir, func(c *verify.Config) { c.At = at })
				require.Equal(t, at, r.State.AtIndex)
				require.Equal(t, r.Snapshots[1].Hash, r.State.AtHash)
			})
		}
	}
}

func bytesOf(t *testing.T, dir string) map[string]string {
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		found[path] = string(raw)
		return err
	}))
	return found
}

func TestVerify_refusesWhatIsInUseOrNotThere(t *testing.T) {
	for _, store := range []string{StoreBolt, StoreWAL} {
		runCluster(t, 1, func(_ string, c *Config) { c.LogStore = store }, func(t *testing.T, c *cluster) {
			_, err := verify.Data(t.Context(), verify.Config{Dir: filepath.Join(c.dir, "c1"), New: func() verify.Replay { return replayedChain{&chain{}} }})
			require.ErrorIs(t, err, verify.ErrInUse)
			c.propose(c.leader(), "it goes on")
		})
	}
	_, err := verify.Data(t.Context(), verify.Config{Dir: t.TempDir()})
	require.ErrorContains(t, err, "there is no log")
	_, err = verify.Data(t.Context(), verify.Config{Dir: t.TempDir(), LogStore: "paper"})
	require.ErrorContains(t, err, "it must be boltdb or wal")
}

// handmade writes a log without raft, so that it may be inconsistent.
func handmade(t *testing.T, term uint64, entries ...*raft.Log) string {
	dir := t.TempDir()
	bolt, err := raftboltdb.NewBoltStore(store.BoltPath(dir))
	require.NoError(t, err)
	require.NoError(t, bolt.StoreLogs(entries))
	require.NoError(t, bolt.SetUint64([]byte("CurrentTerm"), term))
	require.NoError(t, bolt.Close())
	return dir
}

func commandAt(index, term uint64, text string) *raft.Log {
	return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: packChain(time.Time{}, [][]byte{[]byte(text)})}
}

func TestVerify_wrongLogs(t *testing.T) {
	tests := map[string]struct {
		term    uint64
		entries []*raft.Log
		want    verify.Flaw
		replays int
	}{
		"a gap":             {1, []*raft.Log{commandAt(1, 1, "a"), commandAt(2, 1, "b"), commandAt(5, 1, "c")}, verify.Flaw{Where: "log", Index: 3, Term: 0, Problem: "entries 3 to 4 are missing"}, 2},
		"a term goes back":  {3, []*raft.Log{commandAt(1, 1, "a"), commandAt(2, 3, "b"), commandAt(3, 2, "c")}, verify.Flaw{Where: "log", Index: 3, Term: 2, Problem: "the term goes back, from 3 to 2"}, 3},
		"a term to come":    {1, []*raft.Log{commandAt(1, 1, "a"), commandAt(2, 2, "b")}, verify.Flaw{Where: "log", Index: 2, Term: 2, Problem: "the entry is of term 2, and the replica has come to term 1 only"}, 2},
		"no snapshot":       {1, []*raft.Log{commandAt(7, 1, "a")}, verify.Flaw{Where: "log", Index: 7, Term: 0, Problem: "the log begins at 7, and there is no sound snapshot that it continues"}, 0},
		"not decodable":     {1, []*raft.Log{commandAt(1, 1, "a"), {Index: 2, Term: 1, Data: []byte{9, 1}}}, verify.Flaw{Where: "log", Index: 2, Term: 1, Problem: "the entry cannot be decoded: a command is cut off"}, 1},
		"not applicable":    {1, []*raft.Log{commandAt(1, 1, "a"), {Index: 2, Term: 1, Data: []byte{1, 'a', 9, 1}}}, verify.Flaw{Where: "log", Index: 2, Term: 1, Problem: "the entry cannot be applied: runtime error: slice bounds out of range [:10] with capacity"}, 1},
		"a kind of its own": {1, []*raft.Log{{Index: 1, Term: 1, Type: 77}}, verify.Flaw{Where: "log", Index: 1, Term: 1, Problem: "the entry cannot be decoded: it is of a kind that is not known (77)"}, 0},
		"no configuration":  {1, []*raft.Log{{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: []byte("?")}}, verify.Flaw{Where: "log", Index: 1, Term: 1, Problem: "the entry cannot be decoded: "}, 0},
		"broken invariants": {1, []*raft.Log{commandAt(1, 1, "impossible")}, verify.Flaw{Where: "state", Index: 1, Term: 1, Problem: "an invariant is broken: the impossible happened"}, 1},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			r := verified(t, handmade(t, c.term, c.entries...))
			require.Len(t, r.Flaws, 1, problems(r))
			require.Contains(t, r.Flaws[0].Problem, c.want.Problem)
			c.want.Problem = r.Flaws[0].Problem
			require.Equal(t, c.want, r.Flaws[0])
			require.Equal(t, c.replays, r.State.Replayed)
		})
	}
}

func TestVerify_anEntryUnderTheWrongIndex(t *testing.T) {
	dir := handmade(t, 1, commandAt(1, 1, "a"), commandAt(2, 1, "b"))
	flipIn(t, store.BoltPath(dir), func(b []byte) {
		at := strings.LastIndex(string(b), "\xa5Index\x02")
		if at < 0 {
			at = strings.LastIndex(string(b), "\xa5Index\xcf\x00\x00\x00\x00\x00\x00\x00\x02")
			require.Positive(t, at)
			b[at+14] = 3
			return
		}
		b[at+6] = 3
	})
	r := verified(t, dir)
	require.Contains(t, problems(r), "the entry says that it is entry 3")
}

func flipIn(t *testing.T, path string, change func(b []byte)) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	change(b)
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

func TestVerify_damagedSnapshots(t *testing.T) {
	tests := map[string]struct {
		damage func(t *testing.T, snapshot string)
		says   string
	}{
		"cut off": {func(t *testing.T, s string) { require.NoError(t, os.Truncate(filepath.Join(s, "state.bin"), 100)) }, "it has 100 bytes and should have"},
		"a flipped byte": {func(t *testing.T, s string) {
			flipIn(t, filepath.Join(s, "state.bin"), func(b []byte) { b[len(b)/2] ^= 1 })
		}, "its checksum is wrong"},
		"no state":           {func(t *testing.T, s string) { require.NoError(t, os.Remove(filepath.Join(s, "state.bin"))) }, "its state cannot be read"},
		"no description":     {func(t *testing.T, s string) { require.NoError(t, os.Remove(filepath.Join(s, "meta.json"))) }, "its description cannot be read"},
		"half a description": {func(t *testing.T, s string) { require.NoError(t, os.Truncate(filepath.Join(s, "meta.json"), 30)) }, "its description is damaged"},
		"another version": {func(t *testing.T, s string) {
			describe(t, s, func(m *verify.StoredSnapshot) { m.Version = 9 })
		}, "version 9 of raft's snapshots is not known"},
		"another's description": {func(t *testing.T, s string) {
			describe(t, s, func(m *verify.StoredSnapshot) { m.ID = "1-2-3" })
		}, "its description is that of"},
		"no voters": {func(t *testing.T, s string) {
			describe(t, s, func(m *verify.StoredSnapshot) { m.Configuration = raft.Configuration{} })
		}, "it knows of no voter"},
		"another term": {func(t *testing.T, s string) {
			describe(t, s, func(m *verify.StoredSnapshot) { m.Term = 99 })
		}, "it ends in term 99, and the log's entry there is of term"},
		"an index of the past": {func(t *testing.T, s string) {
			describe(t, s, func(m *verify.StoredSnapshot) { m.Index = 3 })
		}, "it is said to be of 3"},
		"a state that the log does not come to": {func(t *testing.T, s string) {
			path := filepath.Join(s, "state.bin")
			flipIn(t, path, func(b []byte) {
				at := strings.Index(string(b), `"Hash":[`) + len(`"Hash":[`)
				b[at] = map[bool]byte{true: '2', false: '1'}[b[at] == '1'] // another first digit of the same length
			})
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			sum := crc64.New(crc64.MakeTable(crc64.ECMA))
			_, _ = sum.Write(raw)
			describe(t, s, func(m *verify.StoredSnapshot) { m.CRC = sum.Sum(nil) })
		}, "and the log comes to"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			dir, last := written(t, StoreBolt, 4096, 30)
			names, err := os.ReadDir(verify.SnapshotsPath(dir))
			require.NoError(t, err)
			require.Len(t, names, 2)
			c.damage(t, filepath.Join(verify.SnapshotsPath(dir), names[1].Name()))
			r := verified(t, dir)
			require.Len(t, r.Flaws, 1, problems(r))
			require.Contains(t, r.Flaws[0].Problem, c.says)
			require.Equal(t, names[1].Name(), r.Flaws[0].Where)
			require.Equal(t, hex.EncodeToString(last.Hash[:8]), r.State.Hash, "the log is whole")
		})
	}
}

func describe(t *testing.T, snapshot string, change func(*verify.StoredSnapshot)) {
	path := filepath.Join(snapshot, "meta.json")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var m verify.StoredSnapshot
	require.NoError(t, json.Unmarshal(raw, &m))
	change(&m)
	raw, err = json.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, raw, 0o600))
}

func TestVerify_theNewestSnapshotIsDamagedAndTheLogReachesTheOlder(t *testing.T) {
	dir, last := written(t, StoreBolt, 60, 100) // the log begins between the two snapshots
	names, err := os.ReadDir(verify.SnapshotsPath(dir))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filepath.Join(verify.SnapshotsPath(dir), names[1].Name(), "state.bin"), 10))
	require.NoError(t, os.MkdirAll(filepath.Join(verify.SnapshotsPath(dir), "1-2-3.tmp"), 0o700))
	r := verified(t, dir)
	require.Len(t, r.Flaws, 1, problems(r))
	require.Equal(t, names[0].Name(), r.State.From)
	require.Equal(t, hex.EncodeToString(last.Hash[:8]), r.State.Hash)
	require.Len(t, r.Notes, 1)
	require.Contains(t, r.Notes[0], "1-2-3.tmp was never finished")
}
