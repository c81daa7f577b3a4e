package raftnode

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/mindcoordinator/mind/raftnode/store"
)

// The format of a page of BoltDB.
const (
	boltHeader    = 16
	boltMetaBytes = 64
)

// logPages returns the pages of a BoltDB file that the newest commit reaches, by their kind.
func logPages(t *testing.T, path string) (pageSize int, leaves, branches []uint64) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	pageSize = db.Info().PageSize
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		for id := 2; int64(id)*int64(pageSize) < tx.Size(); id++ {
			page, err := tx.Page(id)
			switch {
			case err != nil || page == nil:
				return err
			case page.Type == "leaf" && page.Count > 2:
				leaves = append(leaves, uint64(id))
			case page.Type == "branch":
				branches = append(branches, uint64(id))
			}
			id += page.OverflowCount
		}
		return nil
	}))
	return pageSize, leaves, branches
}

func TestVerify_damagedBoltPages(t *testing.T) {
	dir, _ := written(t, StoreBolt, 4096, 100)
	whole, err := os.ReadFile(store.BoltPath(dir))
	require.NoError(t, err)
	pageSize, leaves, branches := logPages(t, store.BoltPath(dir))
	require.NotEmpty(t, leaves)
	require.NotEmpty(t, branches, "the log is too short to have a tree")
	leaf, branch := int(leaves[0])*pageSize, int(branches[0])*pageSize
	order := binary.NativeEndian
	metas := []int{0, pageSize}
	tests := map[string]struct {
		damage func(b []byte) []byte
		says   string
	}{
		"a torn page":                {func(b []byte) []byte { clear(b[leaf+512 : leaf+pageSize]); return b }, ""},
		"a page of zeros":            {func(b []byte) []byte { clear(b[leaf : leaf+pageSize]); return b }, "says that it is page 0"},
		"another page in its place":  {func(b []byte) []byte { copy(b[leaf:leaf+pageSize], b[branch:branch+pageSize]); return b }, "says that it is page"},
		"a page of an unknown kind":  {func(b []byte) []byte { b[leaf+8] = 0x40; return b }, "is neither branch nor leaf"},
		"a page with too much":       {func(b []byte) []byte { order.PutUint16(b[leaf+10:], 60000); return b }, "is said to have 60000 elements"},
		"a page that goes on":        {func(b []byte) []byte { order.PutUint32(b[leaf+12:], 1<<30); return b }, "beyond the end of the file"},
		"a key beyond its page":      {func(b []byte) []byte { order.PutUint32(b[leaf+boltHeader+8:], 1<<30); return b }, "lies outside of the page"},
		"a tree that has no end":     {func(b []byte) []byte { order.PutUint64(b[branch+boltHeader+8:], branches[0]); return b }, "is used twice"},
		"a page that is not there":   {func(b []byte) []byte { order.PutUint64(b[branch+boltHeader+8:], 1<<40); return b }, "a page is said to be number"},
		"a branch out of order":      {func(b []byte) []byte { b[branch+pageSize-1]++; return b }, ""},
		"one damaged meta page":      {func(b []byte) []byte { b[metas[1]+boltHeader+20] ^= 1; return b }, "meta page 1 is damaged: its checksum is wrong"},
		"the other meta page":        {func(b []byte) []byte { b[metas[0]+boltHeader+20] ^= 1; return b }, "meta page 0 is damaged: its checksum is wrong"},
		"both meta pages":            {func(b []byte) []byte { clear(b[:2*pageSize]); return b }, "it does not begin as one of BoltDB"},
		"the file cut in the middle": {func(b []byte) []byte { return b[:leaf+100] }, "it was cut off"},
		"the file cut to nothing":    {func([]byte) []byte { return nil }, "meta page 0 is damaged"},
		"not a BoltDB":               {func(b []byte) []byte { return []byte(strings.Repeat("hello", 5000)) }, "it does not begin as one of BoltDB"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(store.BoltPath(dir), c.damage(append([]byte(nil), whole...)), 0o600))
			r := verified(t, dir)
			if name == "a branch out of order" && r.Sound() {
				t.Skip("the last byte of the page is not in use")
			}
			require.False(t, r.Sound())
			require.Contains(t, problems(r), c.says)
		})
	}
	t.Run("the place in the log is told", func(t *testing.T) {
		b := append([]byte(nil), whole...)
		last := int(leaves[len(leaves)-1]) * pageSize
		b[last+8] = 0x40
		require.NoError(t, os.WriteFile(store.BoltPath(dir), b, 0o600))
		r := verified(t, dir)
		require.Len(t, r.Flaws, 1, problems(r))
		require.Equal(t, "log store", r.Flaws[0].Where)
	})
}

// TestVerify_anyByteOfABoltFile flips bytes in the whole file. Each time the verification must end, and must find a
// flaw, unless all entries are intact or the change is within an entry.
func TestVerify_anyByteOfABoltFile(t *testing.T) {
	dir, _ := written(t, StoreBolt, 4096, 40)
	whole, err := os.ReadFile(store.BoltPath(dir))
	require.NoError(t, err)
	want := verified(t, dir)
	require.True(t, want.Sound(), problems(want))
	pageSize, leaves, _ := logPages(t, store.BoltPath(dir))
	places := map[int]bool{}
	for at := 0; at < len(whole); at += 509 {
		places[at] = true
	}
	for _, leaf := range leaves { // every byte of the headers of pages and of their first elements
		for at := 0; at < 128; at++ {
			places[int(leaf)*pageSize+at] = true
		}
	}
	for at := range boltHeader + boltMetaBytes {
		places[at] = true
	}
	told := 0
	for at := range places {
		b := append([]byte(nil), whole...)
		b[at] ^= 0x11
		require.NoError(t, os.WriteFile(store.BoltPath(dir), b, 0o600))
		if r := verified(t, dir); !r.Sound() {
			told++
		}
	}
	require.Greater(t, told, len(places)/4)
}

// The format of a segment.
const (
	segmentHeader = 32
	frameHeader   = 8
)

// commitsOf returns the ends of the commits of a segment.
func commitsOf(b []byte) (ends []int) {
	for at := segmentHeader; at+frameHeader <= len(b); {
		switch kind, n := b[at], binary.LittleEndian.Uint32(b[at+4:]); kind {
		case segment.FrameEntry, segment.FrameIndex:
			at += frameHeader + (int(n)+7)&^7
		case segment.FrameCommit:
			at += frameHeader
			ends = append(ends, at)
		default:
			return ends
		}
	}
	return ends
}

func TestVerify_damagedWAL(t *testing.T) {
	dir, last := written(t, StoreWAL, 4096, 60)
	segments, err := filepath.Glob(filepath.Join(store.WALPath(dir), "*.wal"))
	require.NoError(t, err)
	require.Len(t, segments, 1)
	whole, err := os.ReadFile(segments[0])
	require.NoError(t, err)
	commits := commitsOf(whole)
	require.Greater(t, len(commits), 40)
	middle, tail := commits[20], commits[len(commits)-1]
	tests := map[string]struct {
		damage func(b []byte)
		says   string // "": there is no flaw
	}{
		"a flipped byte in an entry":    {func(b []byte) { b[middle+frameHeader+3] ^= 1 }, "what comes after them is whole (the checksum of bytes"},
		"a flipped kind of frame":       {func(b []byte) { b[middle] ^= 0x40 }, "and what comes after them is whole"},
		"a flipped length":              {func(b []byte) { b[middle+6] ^= 0x40 }, "and what comes after them is whole"},
		"a hole":                        {func(b []byte) { clear(b[middle : middle+512]) }, "and what comes after them is whole"},
		"the header":                    {func(b []byte) { b[9] ^= 1 }, "the checksum of bytes 0 to"},
		"a flipped byte of the newest":  {func(b []byte) { b[commits[len(commits)-2]+frameHeader+3] ^= 1 }, "the newest write, of bytes"},
		"a write that was not finished": {func(b []byte) { b[(tail/512+3)*512] = 1 }, ""},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			b := append([]byte(nil), whole...)
			c.damage(b)
			require.NoError(t, os.WriteFile(segments[0], b, 0o600))
			r := verified(t, dir)
			if c.says == "" {
				require.True(t, r.Sound(), problems(r))
				require.Len(t, r.Notes, 1)
				require.Contains(t, r.Notes[0], "a write that was not finished")
				require.Equal(t, last.Index, r.Log.LastIndex)
				return
			}
			require.Len(t, r.Flaws, 1, problems(r))
			require.Contains(t, r.Flaws[0].Problem, c.says)
			require.Contains(t, r.Flaws[0].Problem, filepath.Base(segments[0]))
		})
	}
	t.Run("its meta file", func(t *testing.T) {
		require.NoError(t, os.WriteFile(segments[0], whole, 0o600))
		flipIn(t, filepath.Join(store.WALPath(dir), metadb.FileName), func(b []byte) { b[boltHeader+20] ^= 1 })
		r := verified(t, dir)
		require.False(t, r.Sound())
		require.Contains(t, problems(r), fmt.Sprintf("%s: meta page 0 is damaged", metadb.FileName))
	})
}

func TestOpen_refusesADamagedLog(t *testing.T) {
	open := func(t *testing.T, dir, store string) error {
		n, err := Open(Config{ID: "c1", Dir: dir, BindAddr: "127.0.0.1:0", Pack: packChain, LogStore: store}, &chain{})
		if err == nil {
			require.NoError(t, n.Shutdown(t.Context()))
		}
		return err
	}
	bolt, _ := written(t, StoreBolt, 4096, 100)
	pageSize, leaves, _ := logPages(t, store.BoltPath(bolt))
	whole, err := os.ReadFile(store.BoltPath(bolt))
	require.NoError(t, err)
	for name, change := range map[string]func(b []byte) []byte{
		"a torn leaf": func(b []byte) []byte {
			copy(b[int(leaves[0])*pageSize:], strings.Repeat("torn page. ", pageSize/11))
			return b
		},
		// BoltDB would use the other meta page, and lose the newest commit.
		"meta page 0":       func(b []byte) []byte { clear(b[:pageSize]); return b },
		"meta page 1":       func(b []byte) []byte { clear(b[pageSize : 2*pageSize]); return b },
		"half of it":        func(b []byte) []byte { return b[:len(b)/2] },
		"a third of a page": func(b []byte) []byte { return b[:pageSize/3] },
	} {
		require.NoError(t, os.WriteFile(store.BoltPath(bolt), change(append([]byte(nil), whole...)), 0o600))
		err := open(t, bolt, StoreBolt)
		require.ErrorContains(t, err, store.BoltPath(bolt)+" is damaged", name)
	}
	require.NoError(t, os.WriteFile(store.BoltPath(bolt), whole, 0o600))
	require.NoError(t, open(t, bolt, StoreBolt))
	require.NoError(t, os.WriteFile(store.BoltPath(bolt), nil, 0o600))
	require.NoError(t, open(t, bolt, StoreBolt), "a file that was only just made")

	dir, _ := written(t, StoreWAL, 4096, 60)
	segments, err := filepath.Glob(filepath.Join(store.WALPath(dir), "*.wal"))
	require.NoError(t, err)
	flipIn(t, segments[0], func(b []byte) { b[3000] ^= 1 })
	require.ErrorContains(t, open(t, dir, StoreWAL), segments[0]+" is damaged")
	flipIn(t, segments[0], func(b []byte) { b[3000] ^= 1 })
	// A flipped bit in the newest write is damage, too. A write after it that a crash cut short is not.
	newest := func(b []byte) int { commits := commitsOf(b); return commits[len(commits)-2] + frameHeader + 3 }
	flipIn(t, segments[0], func(b []byte) { b[newest(b)] ^= 1 })
	require.ErrorContains(t, open(t, dir, StoreWAL), segments[0]+" is damaged")
	flipIn(t, segments[0], func(b []byte) { b[newest(b)] ^= 1 })
	flipIn(t, segments[0], func(b []byte) {
		commits := commitsOf(b)
		b[(commits[len(commits)-1]/512+3)*512] = 1
	})
	require.NoError(t, open(t, dir, StoreWAL))
}
