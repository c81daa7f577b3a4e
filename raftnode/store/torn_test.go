package store

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// writtenSegment returns the content of a newest segment, and where its last write begins. That write has several
// entries, one of them longer than a sector. The data of the entries is noise or zeros.
func writtenSegment(t *testing.T, before int, zeros bool) (b []byte, last segmentWalk, begins int) {
	t.Helper()
	dir := filled(t, WAL, nil)
	s := open(t, dir, WAL)
	noise := rand.NewChaCha8([32]byte{1})
	var entries []*raft.Log
	for i := range uint64(before + 4) {
		e := &raft.Log{Index: 4711 + i, Term: 3, Type: raft.LogCommand, Data: make([]byte, 17+i*911%1800)}
		if !zeros {
			_, _ = noise.Read(e.Data)
		}
		entries = append(entries, e)
	}
	for _, e := range entries[:before] {
		require.NoError(t, s.StoreLog(e))
	}
	if before > 0 {
		begins = lastByte(t, dir)
	}
	require.NoError(t, s.StoreLogs(entries[before:]))
	require.NoError(t, s.Close())
	b, err := os.ReadFile(tail(t, dir))
	require.NoError(t, err)
	last, err = walkBytes(b)
	require.NoError(t, err)
	require.Equal(t, before+4, last.entries)
	require.Greater(t, last.end-begins, 4*sectorBytes)
	return b[:last.end/4096*4096+2*4096], last, begins
}

// A changed bit anywhere in a segment, including its newest write and its header, must not be taken for a write that a
// crash cut short.
func TestWalkSegment_anyBit(t *testing.T) {
	for _, before := range []int{0, 1, 6} {
		b, last, _ := writtenSegment(t, before, false)
		for bit := range last.end * 8 {
			b[bit/8] ^= 1 << (bit % 8)
			w, err := walkBytes(b)
			require.Error(t, err, "bit %d of byte %d, %d entries of %d are left", bit%8, bit/8, w.entries, last.entries)
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// A changed bit after the last write must not affect any entry.
func TestWalkSegment_anyBitBehindTheEnd(t *testing.T) {
	b, last, _ := writtenSegment(t, 6, false)
	for bit := last.end * 8; bit < (last.end+3*sectorBytes)*8; bit++ {
		b[bit/8] ^= 1 << (bit % 8)
		w, _ := walkBytes(b)
		require.Equal(t, last.entries, w.entries)
		require.Equal(t, last.end, w.end)
		b[bit/8] ^= 1 << (bit % 8)
	}
}

// Garbage in place of any sector or page must be found.
func TestWalkSegment_garbage(t *testing.T) {
	b, last, _ := writtenSegment(t, 6, false)
	for _, size := range []int{sectorBytes, 4096} {
		for at := 0; at < last.end; at += size {
			spoiled := bytes.Clone(b)
			copy(spoiled[at:at+size], bytes.Repeat([]byte("torn page. "), 1+size/11))
			_, err := walkBytes(spoiled)
			require.Error(t, err, "%d bytes from %d on", size, at)
		}
	}
}

// A crash may leave any subset of the sectors of the newest write, with zeros in place of the others. Such a write must
// be dropped.
func TestWalkSegment_cutShort(t *testing.T) {
	for _, zeros := range []bool{false, true} {
		for _, before := range []int{0, 1, 6} {
			b, last, begins := writtenSegment(t, before, zeros)
			first, sectors := begins/sectorBytes, (last.end-1)/sectorBytes-begins/sectorBytes+1
			require.LessOrEqual(t, sectors, 12)
			for there := range 1<<sectors - 1 { // all subsets but the complete one
				cut := bytes.Clone(b)
				for i := range sectors {
					if there&(1<<i) == 0 {
						from := (first + i) * sectorBytes
						clear(cut[max(begins, from) : from+sectorBytes])
					}
				}
				w, err := walkBytes(cut)
				if zeros && bytes.Equal(cut, b) {
					continue // the missing sectors had zeros
				}
				require.NoError(t, err, "sectors %b of %d", there, sectors)
				require.Equal(t, before, w.entries)
				require.Equal(t, begins, w.end)
			}
		}
	}
}
