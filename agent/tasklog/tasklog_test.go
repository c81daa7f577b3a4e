package tasklog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(n int64) time.Time { return time.Unix(1_700_000_000, n) }

func texts(entries []Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, string(e.Kind)+":"+e.Text)
	}
	return out
}

func readAll(t *testing.T, r *Reader) []Entry {
	t.Helper()
	var all []Entry
	for {
		entries, err := r.Next(7)
		require.NoError(t, err)
		if len(entries) == 0 {
			return all
		}
		all = append(all, entries...)
	}
}

func TestLinesKeepTheirOrderAndStream(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	w := NewWriter(dir, Limits{})
	out, errs := w.Stream(Stdout), w.Stream(Stderr)
	out.Write(at(1), []byte("one\ntw"))
	errs.Write(at(2), []byte("bad\n\n"))
	require.True(t, out.Waiting())
	out.Write(at(3), []byte("o\nthree"))
	out.Flush(at(4))
	require.False(t, out.Waiting())
	out.Write(at(5), []byte("nul\x00 \xff\xfe end\r\n"))
	w.Remark(at(6), "remark")
	w.Close(at(7))

	r := NewReader(dir)
	defer r.Close()
	entries := readAll(t, r)
	require.Equal(t, []string{"o:one", "e:bad", "e:", "o:two", "o:three", "o:nul\x00 \uFFFD end\r", "m:remark"}, texts(entries))
	require.Equal(t, at(3).UnixNano(), entries[3].UnixNanos)
}

func TestLongLinesAreSplit(t *testing.T) {
	w := NewWriter(t.TempDir(), Limits{})
	s := w.Stream(Stdout)
	long := strings.Repeat("x", MaxLine)
	s.Write(at(1), []byte(long[:100]))
	s.Write(at(1), []byte(long[100:]+"y\n"))
	s.Write(at(1), []byte(long+"\n"))
	w.Close(at(2))
	require.Equal(t, []string{"o:" + long, "o:y", "o:" + long}, texts(readAll(t, NewReader(w.dir))))
}

// A character is in one record, wherever the line is cut. Bytes that are no character do not wait for ever.
func TestCharactersAreNotCut(t *testing.T) {
	w := NewWriter(t.TempDir(), Limits{})
	s := w.Stream(Stdout)
	s.Write(at(1), []byte(strings.Repeat("x", MaxLine-1)+strings.Repeat("€", 30_000)+"\n"))
	s.Write(at(2), []byte("a\xe2\x82"))
	s.Flush(at(3))
	require.True(t, s.Waiting())
	s.Write(at(4), []byte("\xac euro\n"))
	s.Write(at(5), []byte("b\xe2"))
	s.Flush(at(6))
	s.Flush(at(7))
	require.False(t, s.Waiting())
	w.Close(at(8))
	all := texts(readAll(t, NewReader(w.dir)))
	require.Equal(t, 30_000, strings.Count(strings.Join(all, ""), "€")-1)
	require.Equal(t, []string{"o:a", "o:€ euro", "o:b", "o:\uFFFD"}, all[len(all)-4:])
	require.NotContains(t, strings.Join(all[:len(all)-1], ""), "\uFFFD")
}

func writeNumbered(t *testing.T, limits Limits, lines int) *Writer {
	t.Helper()
	w := NewWriter(t.TempDir(), limits)
	s := w.Stream(Stdout)
	for i := range lines {
		s.Write(at(int64(i)), fmt.Appendf(nil, "line %d\n", i))
	}
	return w
}

func TestOffsetsGoOnAcrossSegments(t *testing.T) {
	w := writeNumbered(t, Limits{SegmentBytes: 200}, 100)
	bases, err := segments(w.dir)
	require.NoError(t, err)
	require.Greater(t, len(bases), 10)

	all := readAll(t, NewReader(w.dir))
	require.Len(t, all, 100)
	for i, e := range all {
		require.Equal(t, fmt.Sprintf("line %d", i), e.Text)
		r := NewReader(w.dir)
		require.NoError(t, r.SeekOffset(e.Offset))
		rest := readAll(t, r)
		require.Len(t, rest, 99-i, "after entry %d", i)
		if i > 0 {
			// An offset one byte too large moves to the next record, not into the middle of one.
			require.NoError(t, r.SeekOffset(all[i-1].Offset+1))
			require.Len(t, readAll(t, r), 99-i)
		}
		require.NoError(t, r.Close())
	}
}

func TestTail(t *testing.T) {
	w := writeNumbered(t, Limits{SegmentBytes: 200}, 50)
	for _, n := range []int{0, 1, 5, 6, 7, 8, 49, 50, 51, 1000} {
		r := NewReader(w.dir)
		require.NoError(t, r.SeekTail(n))
		entries := readAll(t, r)
		require.Len(t, entries, min(n, 50), "tail %d", n)
		for i, e := range entries {
			require.Equal(t, fmt.Sprintf("line %d", 50-len(entries)+i), e.Text)
		}
	}
	r := NewReader(t.TempDir())
	require.NoError(t, r.SeekTail(5))
	require.Empty(t, readAll(t, r))
}

func TestSince(t *testing.T) {
	w := writeNumbered(t, Limits{SegmentBytes: 200}, 50)
	r := NewReader(w.dir)
	r.Since(at(40).UnixNano())
	require.Equal(t, "o:line 40", texts(readAll(t, r))[0])
}

func TestReaderFollowsAcrossRotation(t *testing.T) {
	w := NewWriter(t.TempDir(), Limits{SegmentBytes: 100})
	s := w.Stream(Stdout)
	r := NewReader(w.dir)
	require.Empty(t, readAll(t, r))
	for i := range 40 {
		s.Write(at(int64(i)), fmt.Appendf(nil, "line %d\n", i))
		require.Equal(t, []string{fmt.Sprintf("o:line %d", i)}, texts(readAll(t, r)))
	}
}

func TestRetentionRemovesTheOldestAndSaysSo(t *testing.T) {
	w := writeNumbered(t, Limits{SegmentBytes: 200, TotalBytes: 1000}, 200)
	bases, err := segments(w.dir)
	require.NoError(t, err)
	var total int64
	for _, base := range bases {
		info, err := os.Stat(filepath.Join(w.dir, segmentName(base)))
		require.NoError(t, err)
		total += info.Size()
	}
	require.LessOrEqual(t, total, int64(1000))

	entries := readAll(t, NewReader(w.dir))
	require.Equal(t, Remark, entries[0].Kind)
	require.Contains(t, entries[0].Text, fmt.Sprintf("%d bytes of log were removed", bases[0]))
	require.Equal(t, "line 199", entries[len(entries)-1].Text)
	require.NotEqual(t, "line 0", entries[1].Text)
}

func TestSlowReaderIsNotStuckWhenItsSegmentWentAway(t *testing.T) {
	w := writeNumbered(t, Limits{SegmentBytes: 200, TotalBytes: 600}, 2)
	r := NewReader(w.dir)
	require.Len(t, readAll(t, r), 2)
	s := w.Stream(Stdout)
	for i := range 100 {
		s.Write(at(int64(i)), []byte("later\n"))
	}
	entries := readAll(t, r)
	require.NotEmpty(t, entries)
	require.Equal(t, "later", entries[len(entries)-1].Text)
}

// A directory that cannot be written simulates a full disk: writes fail in both cases.
func TestWhatTheDiskRefusesIsCounted(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "log")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	w := NewWriter(dir, Limits{})
	s := w.Stream(Stdout)
	s.Write(at(0), []byte("a\nb\n"))
	require.NoError(t, os.Remove(dir))
	s.Write(at(1), []byte("c\n")) // too early to try again
	s.Write(at(0).Add(2*retryDisk), []byte("d\n"))
	w.Close(at(0).Add(3 * retryDisk))

	got := texts(readAll(t, NewReader(dir)))
	require.Len(t, got, 2)
	require.Contains(t, got[0], "m:mind: 3 lines (")
	require.Equal(t, "o:d", got[1])
}

// The lines of a task that ended on a full disk are counted in its log when there is room again.
func TestLinesLostAtTheEndAreTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	w := NewWriter(dir, Limits{})
	s := w.Stream(Stdout)
	s.Write(at(0), []byte("before\n"))
	full := func(is bool) { // a file that is not open for writing refuses, as a full disk does
		file, err := os.Open(filepath.Join(dir, segmentName(0)))
		require.NoError(t, err)
		if is {
			w.file = file
			return
		}
		require.NoError(t, file.Close())
	}
	full(true)
	s.Write(at(1), []byte("why\nI die\n"))
	w.Close(at(2))
	full(false)
	require.Equal(t, []string{"o:before"}, texts(readAll(t, NewReader(dir))))
	require.True(t, w.TellLost(at(3)))
	require.True(t, w.TellLost(at(4)), "once")
	got := texts(readAll(t, NewReader(dir)))
	require.Len(t, got, 2)
	require.Contains(t, got[1], "m:mind: 2 lines (")

	// Nothing is written into a file that somebody else has put there.
	w = NewWriter(dir, Limits{})
	require.NoError(t, os.RemoveAll(dir))
	s = w.Stream(Stdout)
	s.Write(at(0), []byte("before\n"))
	full(true)
	s.Write(at(1), []byte("lost\n"))
	w.Close(at(2))
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte("theirs"), 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, segmentName(0))))
	require.NoError(t, os.Symlink(other, filepath.Join(dir, segmentName(0))))
	require.False(t, w.TellLost(at(3)))
	text, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "theirs", string(text))
}

func TestDamagedRecordIsShown(t *testing.T) {
	w := writeNumbered(t, Limits{}, 3)
	name := filepath.Join(w.dir, segmentName(0))
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	data[0] = 'x'
	require.NoError(t, os.WriteFile(name, data, 0o600))
	entries := readAll(t, NewReader(w.dir))
	require.Len(t, entries, 3)
	require.Contains(t, entries[0].Text, "damaged")
	require.Equal(t, "line 1", entries[1].Text)
}

func BenchmarkWrite(b *testing.B) {
	w := NewWriter(b.TempDir(), Limits{})
	s := w.Stream(Stdout)
	chunk := []byte(strings.Repeat("step 100 loss 0.3456 lr 0.0001 tokens/s 12345\n", 64))
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		s.Write(at(1), chunk)
	}
}

// The task may write into the directory of its log. Its links are not followed, and its files do not block readers or
// the writer.
func TestWhatATaskPutsInThePlaceOfItsLog(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("1 o secret\n"), 0o600))
	for what, put := range map[string]func(name string) error{
		"a link":      func(name string) error { return os.Symlink(secret, name) },
		"a hard link": func(name string) error { return os.Link(secret, name) },
		"a FIFO":      func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"a directory": func(name string) error { return os.Mkdir(name, 0o700) },
	} {
		t.Run(what, func(t *testing.T) {
			w := writeNumbered(t, Limits{SegmentBytes: 200}, 20)
			bases, err := segments(w.dir)
			require.NoError(t, err)
			read := func() {
				for _, seek := range []func(r *Reader) error{
					func(*Reader) error { return nil },
					func(r *Reader) error { return r.SeekTail(1000) },
					func(r *Reader) error { return r.SeekOffset(w.base - 1) },
				} {
					r := NewReader(w.dir)
					if seek(r) != nil {
						continue
					}
					entries, _ := r.Next(1000)
					require.NotContains(t, strings.Join(texts(entries), "\n"), "secret")
					require.NoError(t, r.Close())
				}
				for offset := uint64(0); offset < w.base; offset += 50 {
					piece, _ := ReadRaw(w.dir, offset, 1<<20)
					require.NotContains(t, string(piece.Data), "secret")
				}
				_, _, _ = End(w.dir)
			}
			for _, base := range bases {
				name := filepath.Join(w.dir, segmentName(base))
				require.NoError(t, os.Remove(name))
				require.NoError(t, put(name))
				read()
			}
			// The names of later segments are taken, too: the writer makes its own files.
			for i := range 40 {
				next := filepath.Join(w.dir, segmentName(w.base+uint64(w.size)))
				if _, err := os.Lstat(next); err != nil {
					require.NoError(t, put(next))
				}
				w.Stream(Stdout).Write(at(int64(i)), []byte("after\n"))
			}
			w.Close(at(50))
			read()
			text, err := os.ReadFile(secret)
			require.NoError(t, err)
			require.Equal(t, "1 o secret\n", string(text), "nothing was written through it")
		})
	}
}

func TestALogThatSomebodyElseWroteIsReadInBounds(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, segmentName(0))
	require.NoError(t, os.WriteFile(name, []byte("1 o one\n"), 0o600))
	require.NoError(t, os.Truncate(name, 30<<30))
	there, _, err := End(dir)
	require.NoError(t, err)
	require.EqualValues(t, maxSegment, there)
	r := NewReader(dir)
	entries := readAll(t, r)
	require.LessOrEqual(t, len(entries), maxSegment/(2*MaxLine)+2)
	require.Equal(t, "one", entries[0].Text)
	require.LessOrEqual(t, r.Offset(), uint64(maxSegment))
	require.NoError(t, r.SeekTail(5))
	require.NoError(t, r.SeekOffset(20<<30))
	require.Empty(t, readAll(t, r))
}

func TestNothingIsWrittenBehindTheEndOfALog(t *testing.T) {
	w := writeNumbered(t, Limits{}, 3)
	w.Close(at(4))
	w.Remark(at(5), "late")
	w.Stream(Stdout).Write(at(6), []byte("later\n"))
	require.Equal(t, []string{"o:line 0", "o:line 1", "o:line 2"}, texts(readAll(t, NewReader(w.dir))))
}
