package taskfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const enough = 4 << 20

// tailed is a Tail of a file that the test writes.
type tailed struct {
	Tail
	t    *testing.T
	name string
}

func newTail(t *testing.T, most int64) *tailed {
	dir := t.TempDir()
	return &tailed{Tail: Tail{Dir: dir, Name: "f", Most: most}, t: t, name: filepath.Join(dir, "f")}
}

func (l *tailed) write(text string) {
	l.t.Helper()
	file, err := os.OpenFile(l.name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(l.t, err)
	defer file.Close()
	_, err = file.WriteString(text)
	require.NoError(l.t, err)
}

// look returns the lines of one look; for a line that is too long, its length.
func (l *tailed) look(budget int64) (lines []string, more bool) {
	l.t.Helper()
	more, err := l.Look(budget, func(line Line) bool {
		text := string(line.Text)
		if line.Long {
			text = fmt.Sprintf("long %d", len(text))
		}
		lines = append(lines, text)
		require.Equal(l.t, line.End, l.Offset)
		return true
	})
	require.NoError(l.t, err)
	return lines, more
}

func (l *tailed) all() (lines []string) {
	l.t.Helper()
	for more := true; more; {
		var next []string
		next, more = l.look(enough)
		lines = append(lines, next...)
	}
	return lines
}

func TestLinesAreReadOnceTheyAreWhole(t *testing.T) {
	l := newTail(t, 0)
	require.Empty(t, l.all(), "there is no file yet")
	l.write("one\n\n two \nthr")
	require.Equal(t, []string{"one", "two"}, l.all())
	require.Empty(t, l.all())
	l.write("ee\n")
	require.Equal(t, []string{"three"}, l.all())
	require.NoError(t, os.Truncate(l.name, 0))
	l.write("again\n")
	require.Equal(t, []string{"again"}, l.all())
}

func TestALookEndsWhenWhoAskedHasEnough(t *testing.T) {
	l := newTail(t, 0)
	l.write("a\nb\nc\n")
	more, err := l.Look(enough, func(Line) bool { return false })
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, []string{"b", "c"}, l.all())
}

func TestALookReadsNoMoreThanItsBudget(t *testing.T) {
	l := newTail(t, 0)
	line := strings.Repeat("x", 99) + "\n"
	l.write(strings.Repeat(line, 100_000))
	lines, more := l.look(1 << 20)
	require.True(t, more)
	require.LessOrEqual(t, l.BytesRead, int64(1<<20)+readAtOnce)
	require.Len(t, append(lines, l.all()...), 100_000)
	require.Less(t, l.BytesRead, int64(11_000_000), "nothing is read twice")
}

// No byte of a hole of 30 GiB is read.
func TestAHoleCostsNothing(t *testing.T) {
	l := newTail(t, 0)
	l.write("one\nhalf")
	require.NoError(t, os.Truncate(l.name, 30<<30))
	require.Equal(t, []string{"one"}, l.all())
	l.write("two\n")
	require.Equal(t, []string{"two"}, l.all(), "a hole ends what has no end")
	require.Less(t, l.BytesRead, int64(1<<20))

	l = newTail(t, 256<<20)
	require.NoError(t, os.WriteFile(l.name, nil, 0o600))
	require.NoError(t, os.Truncate(l.name, 30<<30))
	require.Empty(t, l.all())
	require.True(t, l.Full())
	require.Zero(t, l.BytesRead)
}

func TestWhatIsBeyondTheLimitIsNotRead(t *testing.T) {
	l := newTail(t, 10)
	l.write("one\ntwo\n")
	require.Equal(t, []string{"one", "two"}, l.all())
	require.False(t, l.Full())
	l.write("three\nfour\n")
	require.Empty(t, l.all(), "its end is beyond")
	require.True(t, l.Full())
	read := l.BytesRead
	for range 10 {
		l.write(strings.Repeat("more\n", 1000))
		require.Empty(t, l.all())
	}
	require.Equal(t, read, l.BytesRead)
	require.NoError(t, os.Truncate(l.name, 0))
	l.write("again\n")
	require.Equal(t, []string{"again"}, l.all())
}

func TestALineThatIsTooLongIsCut(t *testing.T) {
	long := fmt.Sprintf("long %d", keptOfLong)
	for _, size := range []int{MaxLine - 1, MaxLine, MaxLine + 1, 3*MaxLine + 17, 64 << 20} {
		l := newTail(t, 0)
		l.write("first\n" + strings.Repeat("y", size))
		require.Equal(t, []string{"first"}, l.all())
		l.write("\nlast\n")
		got := l.all()
		require.Equal(t, "last", got[1])
		if size < MaxLine {
			require.Len(t, got[0], size)
		} else {
			require.Equal(t, long, got[0], "%d", size)
		}
		require.Less(t, l.BytesRead, int64(size)+5*MaxLine, "each byte about once")
	}
	// The line never ends, so the limit ends it.
	l := newTail(t, 8<<20)
	l.write(strings.Repeat("z", 9<<20))
	require.Empty(t, l.all())
	require.True(t, l.Full())
}

func TestGarbageIsLines(t *testing.T) {
	l := newTail(t, 0)
	garbage := bytes.Repeat([]byte{0, 0xff, 0xfe, '\r', 0x1b, 0x80}, 50_000)
	l.write(string(garbage) + "\n\x00\x00\n")
	require.Len(t, l.all(), 2)
}

// A program may truncate or replace its file between any two calls of a reader.
func TestAFileThatChangesWhileItIsRead(t *testing.T) {
	l := newTail(t, 0)
	l.write(strings.Repeat("line\n", 100_000))
	done := make(chan error, 1)
	go func() {
		var err error
		for i := range 300 {
			if err = os.Truncate(l.name, int64(i%7)*1000); err != nil {
				break
			}
			if err = os.WriteFile(l.name+".new", bytes.Repeat([]byte("line\n"), i*100), 0o600); err != nil {
				break
			}
			if err = os.Rename(l.name+".new", l.name); err != nil {
				break
			}
		}
		done <- err
	}()
	for looks := 0; ; looks++ {
		_, err := l.Look(enough, func(Line) bool { return true })
		if err != nil {
			require.ErrorIs(t, err, ErrReplaced)
		}
		select {
		case err := <-done:
			require.NoError(t, err)
			return
		default:
		}
	}
}
