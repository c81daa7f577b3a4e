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
	// keptOfLong is how much of a longer line is kept.
	keptOfLong = 1 << 10
	// readAtOnce is how much is read in one call.
	readAtOnce = 64 << 10
	seekData   = 3
	seekHole   = 4
)

// Tail reads the lines that are appended to a file. Only one goroutine may use it.
type Tail struct {
	Dir, Name string
	// Most is the number of bytes from the start of the file that are read; 0: all.
	Most int64
	// Offset is where the next line begins.
	Offset int64
	// Changed is when the file was last changed, in Unix nanoseconds, at the last look.
	Changed int64
	// BytesRead counts the bytes that were read in all looks.
	BytesRead int64

	size   int64 // the size at which nothing was left to read
	full   bool  // the file is longer than Most
	done   bool  // and was read up to Most
	prefix []byte
	longAt int64 // up to where an overlong line was skipped; 0: none
	buf    []byte
}

// Line is one line of a file.
type Line struct {
	Text []byte
	// End is the offset behind the line.
	End int64
	// Long: the line is longer than MaxLine, and Text is only its beginning.
	Long bool
}

// Full reports whether the file is longer than Most, and was read up to Most.
func (t *Tail) Full() bool { return t.done }

// Look calls take for each complete new line, until take returns false, budget bytes were read, or nothing is left.
// more reports whether there is more to read. Holes of the file are skipped; an incomplete line before a hole is
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
	defer func() { t.buf = nil }() // there are many Tails, and most of them are idle
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
			return false, err // with n == 0 the file was truncated during the look
		}
		took, goOn := t.lines(t.buf[:n], at, take)
		switch {
		case !goOn:
			return true, nil
		case took:
		case upTo < end && at+int64(n) >= upTo: // a hole ends an incomplete line
			t.Offset, t.longAt = upTo, 0
		case at+int64(n) >= end && t.longAt == 0:
			t.size, t.done = size, t.full // an incomplete line is left
			return false, nil
		}
	}
}

// fill reads from an offset. It reads more than the last time if that contained no complete line.
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

// lines passes on the complete lines of a chunk that was read at an offset. took reports whether the next read starts
// elsewhere.
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

// Data returns the bounds of the next written part of a file between two offsets. Between such parts there are holes,
// which some file systems do not report.
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
		return end // a hole up to the end, or a file system that does not report holes
	}
	return at
}

// Cause returns an error without the path, which the caller's message contains already.
func Cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
