package taskfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

const (
	// MaxLine is the longest line that is read whole.
	MaxLine = 1 << 20
	// keptOfLong is how much is kept of a longer one.
	keptOfLong = 1 << 10
	// readAtOnce is how much is read in one call.
	readAtOnce = 64 << 10
	seekData   = 3
	seekHole   = 4
)

// Tail reads the lines that are appended to a file. Only one goroutine may use it.
type Tail struct {
	Dir, Name string
	// Most is how many bytes from the start of the file are read; 0: all.
	Most int64
	// Offset is where the next line begins.
	Offset int64
	// Changed is when the file was last changed, in Unix nanoseconds, at the last look.
	Changed int64
	// BytesRead counts what was read in all looks.
	BytesRead int64

	size   int64 // at which there was nothing more to read
	full   bool  // the file is longer than Most
	done   bool  // and was read up to there
	prefix []byte
	longAt int64 // up to where an overlong line was skipped; 0: none
	buf    []byte
}

// Line is one line of a file.
type Line struct {
	Text []byte
	// End is the offset behind it.
	End int64
	// Long: it is longer than MaxLine, and Text is only its beginning.
	Long bool
}

// Full reports whether the file is longer than Most, and was read up to there.
func (t *Tail) Full() bool { return t.done }

// Look calls take for each complete line that is new, until take returns false, a number of bytes was read, or nothing is
// left. more reports that there is more to read now. Holes of the file are skipped; an incomplete line before a hole is
// dropped. A file that shrank is read from its start.
func (t *Tail) Look(budget int64, take func(Line) (goOn bool)) (more bool, err error) {
	size, changed, err := Size(t.Dir, t.Name)
	if err != nil {
		if errors.Is(err, syscall.ENOENT) {
			err = nil
		}
		return false, err
	}
	t.Changed = changed
	if size == t.size || t.done && size > t.Most {
		return false, nil
	}
	if size < t.Offset && !(t.Most > 0 && t.Offset > t.Most) {
		t.Offset, t.longAt = 0, 0
	}
	file, err := Open(t.Dir, t.Name)
	if err != nil {
		return false, err
	}
	defer file.Close()
	defer func() { t.buf = nil }() // there are many tails, and most of them rest
	t.size, t.done = -1, false
	end := size
	if t.full = t.Most > 0 && size > t.Most; t.full {
		end = t.Most
	}
	sparse := hasHoles(file)
	for read := int64(0); ; {
		at, upTo := max(t.Offset, t.longAt), end
		if sparse {
			next := int64(0)
			if next, upTo = data(file, at, end); next > at {
				t.Offset, t.longAt, at = next, 0, next
			}
		}
		if at >= end {
			t.size, t.done = size, t.full
			return false, nil
		}
		if read >= budget {
			return true, nil
		}
		n, err := t.fill(file, at, upTo)
		read += int64(n)
		t.BytesRead += int64(n)
		if err != nil || n == 0 {
			return false, err // n is 0: it was cut off while it is read
		}
		took, goOn := t.lines(t.buf[:n], at, take)
		switch {
		case !goOn:
			return true, nil
		case took:
		case upTo < end && at+int64(n) >= upTo: // a hole ends what has no end
			t.Offset, t.longAt = upTo, 0
		case at+int64(n) >= end && t.longAt == 0:
			t.size, t.done = size, t.full // half a line is left
			return false, nil
		}
	}
}

// fill reads from an offset: more than before if the last read contained no complete line.
func (t *Tail) fill(file *os.File, at, end int64) (n int, err error) {
	if len(t.buf) == 0 {
		t.buf = make([]byte, readAtOnce)
	}
	n, err = file.ReadAt(t.buf[:min(int64(len(t.buf)), end-at)], at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// lines passes on the complete lines of what was read at an offset. took reports that the next read starts elsewhere.
func (t *Tail) lines(chunk []byte, at int64, take func(Line) bool) (took, goOn bool) {
	for {
		end := bytes.IndexByte(chunk, '\n')
		if end < 0 {
			break
		}
		line := Line{Text: bytes.TrimSpace(chunk[:end])}
		if t.longAt > 0 {
			line = Line{Text: t.prefix, Long: true}
		}
		at += int64(end) + 1
		t.Offset, t.longAt, line.End = at, 0, at
		chunk, took = chunk[end+1:], true
		if len(line.Text) > 0 && !take(line) {
			return true, false
		}
	}
	switch {
	case took:
	case t.longAt > 0:
		t.longAt, took = at+int64(len(chunk)), true
	case len(chunk) >= MaxLine:
		t.prefix = append(t.prefix[:0], chunk[:keptOfLong]...)
		t.longAt, took = at+int64(len(chunk)), true
	case len(chunk) == len(t.buf):
		t.buf, took = make([]byte, 2*len(t.buf)), true
	}
	return took, true
}

// Data returns the next written part of a file between an offset and an end. Between the parts there are holes, which some
// file systems do not report.
func Data(file *os.File, from, end int64) (begin, upTo int64) {
	from = min(from, end)
	if !hasHoles(file) {
		return from, end
	}
	return data(file, from, end)
}

func data(file *os.File, from, end int64) (begin, upTo int64) {
	begin = seek(file, from, end, seekData)
	return begin, max(begin, seek(file, begin, end, seekHole))
}

// hasHoles reports whether a file uses less disk space than its length.
func hasHoles(file *os.File) bool {
	var stat syscall.Stat_t
	return syscall.Fstat(int(file.Fd()), &stat) == nil && stat.Blocks*512 < stat.Size
}

// seek returns where the next data of a file starts, or the next hole, at most end.
func seek(file *os.File, at, end int64, what int) int64 {
	next, err := file.Seek(at, what)
	switch {
	case err == nil:
		return min(max(next, at), end)
	case errors.Is(err, syscall.ENXIO) || what == seekHole:
		return end // a hole up to its end; or a file system that does not tell
	}
	return at
}

// Cause returns an error without the path, which the message contains already.
func Cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
