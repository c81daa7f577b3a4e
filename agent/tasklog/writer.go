package tasklog

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

// retryDisk is how long the writer waits after a failed write before it tries again.
const retryDisk = time.Second

// Limits of a log. The zero value of a field means its default.
type Limits struct {
	// SegmentBytes is the size at which a segment is closed; 0: 16 MiB.
	SegmentBytes int64
	// TotalBytes limits the size of all segments together; the oldest are removed first; 0: 1 GiB.
	TotalBytes int64
}

// Writer appends to a log. It is safe for concurrent use. A directory must only ever have one Writer.
type Writer struct {
	dir    string
	limits Limits

	mu      sync.Mutex
	file    *os.File
	base    uint64 // offset of the current segment
	size    int64  // of the current segment, whole records only
	older   []uint64
	buf     []byte
	retryAt time.Time
	lost    lost
	closed  bool
}

// lost counts dropped records that no remark has reported yet.
type lost struct {
	lines, bytes int64
	cause        error
}

// NewWriter returns a writer. It creates no file before the first record.
func NewWriter(dir string, limits Limits) *Writer {
	if limits.SegmentBytes <= 0 {
		limits.SegmentBytes = 16 << 20
	}
	if limits.TotalBytes <= 0 {
		limits.TotalBytes = 1 << 30
	}
	return &Writer{dir: dir, limits: limits}
}

// Stream returns a Stream for one of the task's outputs.
func (w *Writer) Stream(kind Kind) *Stream { return &Stream{w: w, kind: kind} }

// Remark writes a line by Mind itself.
func (w *Writer) Remark(now time.Time, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(now, Remark, []byte(text))
	w.flush(now, false)
}

// Close writes as much as possible and closes the log. Later records are dropped.
func (w *Writer) Close(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush(now, true)
	w.closed = true
	if w.file != nil {
		// A full disk may have left an incomplete record at the end: cut it off.
		_ = w.file.Truncate(w.size)
		_ = w.file.Close()
		w.file = nil
	}
}

// TellLost writes what a remark about lost records has to say into a log that is closed, and reports whether nothing is left to be
// said. The records of a task that ends while the disk is full are the ones that say why.
func (w *Writer) TellLost(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost.lines == 0 {
		return true
	}
	if w.file == nil && w.reopen() != nil {
		return false
	}
	told := w.tellLost(now)
	if w.closed && w.file != nil {
		_ = w.file.Truncate(w.size)
		_ = w.file.Close()
		w.file = nil
	}
	return told
}

// reopen opens the current segment again, if it is as this Writer has left it.
func (w *Writer) reopen() error {
	if w.size == 0 {
		return w.open()
	}
	file, err := os.OpenFile(w.dir+"/"+segmentName(w.base), os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() != w.size {
		_ = file.Close()
		return errReplaced
	}
	w.file = file
	return nil
}

var errReplaced = errors.New("something else is in the place of the log")

func (w *Writer) add(now time.Time, kind Kind, text []byte) {
	w.buf = strconv.AppendInt(w.buf, now.UnixNano(), 10)
	w.buf = append(w.buf, ' ', byte(kind), ' ')
	w.buf = append(w.buf, text...)
	w.buf = append(w.buf, '\n')
}

// flush writes the buffered records, or counts them as lost.
func (w *Writer) flush(now time.Time, last bool) {
	defer func() { w.buf = w.buf[:0] }()
	if w.closed {
		return
	}
	if w.lost.lines > 0 {
		if now.Before(w.retryAt) && !last {
			w.lose(w.buf, w.lost.cause)
			return
		}
		if !w.tellLost(now) {
			w.lose(w.buf, w.lost.cause)
			return
		}
	}
	if len(w.buf) == 0 {
		return
	}
	if rest, err := w.write(w.buf); err != nil {
		w.lose(rest, err)
		w.retryAt = now.Add(retryDisk)
	}
}

func (w *Writer) lose(records []byte, cause error) {
	w.lost.lines += int64(bytes.Count(records, []byte{'\n'}))
	w.lost.bytes += int64(len(records))
	w.lost.cause = cause
}

// tellLost writes a remark about lost records.
func (w *Writer) tellLost(now time.Time) bool {
	records := w.buf
	w.buf = nil
	w.add(now, Remark, []byte("mind: "+strconv.FormatInt(w.lost.lines, 10)+" lines ("+strconv.FormatInt(w.lost.bytes, 10)+
		" bytes) of output were lost: "+w.lost.cause.Error()))
	remark := w.buf
	w.buf = records
	if _, err := w.write(remark); err != nil {
		w.lost.cause = err
		w.retryAt = now.Add(retryDisk)
		return false
	}
	w.lost = lost{}
	return true
}

// write appends whole records, and returns the ones that could not be written.
func (w *Writer) write(records []byte) (rest []byte, err error) {
	if w.file != nil && w.size > 0 && w.size+int64(len(records)) > w.limits.SegmentBytes {
		w.rotate()
	}
	if w.file == nil {
		if err := w.open(); err != nil {
			return records, err
		}
	}
	n, err := w.file.WriteAt(records, w.size)
	if err == nil {
		w.size += int64(n)
		return nil, nil
	}
	// A reader may have seen the whole records of the part that was written, so they stay. The incomplete record after
	// them is overwritten by the next write.
	kept := bytes.LastIndexByte(records[:n], '\n') + 1
	w.size += int64(kept)
	return records[kept:], err
}

func (w *Writer) open() error {
	name := w.dir + "/" + segmentName(w.base)
	file, err := create(name)
	switch {
	case os.IsNotExist(err):
		if err := os.MkdirAll(w.dir, 0o700); err != nil {
			return err
		}
		file, err = create(name)
	case os.IsExist(err):
		// The task has put something there, for example a link to a file that it may not write itself.
		if err := os.Remove(name); err != nil {
			return err
		}
		file, err = create(name)
	}
	if err != nil {
		return err
	}
	w.file, w.size = file, 0
	return nil
}

// create makes a file that does not exist yet.
func create(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

// rotate closes the current segment and removes the oldest ones beyond the size limit.
func (w *Writer) rotate() {
	_ = w.file.Truncate(w.size)
	_ = w.file.Close()
	w.file = nil
	w.older = append(w.older, w.base)
	w.base += uint64(w.size)
	w.size = 0
	for len(w.older) > 0 && int64(w.base-w.older[0])+w.limits.SegmentBytes > w.limits.TotalBytes {
		if os.Remove(w.dir+"/"+segmentName(w.older[0])) != nil {
			return
		}
		w.older = w.older[1:]
	}
}

// Stream splits one output of the task into records. Only one goroutine may use it.
type Stream struct {
	w       *Writer
	kind    Kind
	partial []byte
}

// Write adds bytes that were read from the output.
func (s *Stream) Write(now time.Time, p []byte) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.grow(now, p)
			break
		}
		line := p[:end]
		p = p[end+1:]
		if len(s.partial)+len(line) > MaxLine {
			s.grow(now, line)
			line = nil
		}
		if len(s.partial) > 0 {
			s.partial = append(s.partial, line...)
			line = s.partial
		}
		s.w.add(now, s.kind, line)
		s.partial = s.partial[:0]
	}
	s.w.flush(now, false)
}

// grow appends to the incomplete line, and splits it at MaxLine.
func (s *Stream) grow(now time.Time, p []byte) {
	for len(s.partial)+len(p) > MaxLine {
		n := MaxLine - len(s.partial)
		s.partial = append(s.partial, p[:n]...)
		s.cut(now)
		p = p[n:]
	}
	s.partial = append(s.partial, p...)
}

// cut writes the incomplete line as a record. The beginning of a character stays for the next record, unless it is all there is.
func (s *Stream) cut(now time.Time) {
	n := wholeCharacters(s.partial)
	if n == 0 {
		n = len(s.partial)
	}
	s.w.add(now, s.kind, s.partial[:n])
	s.partial = append(s.partial[:0], s.partial[n:]...)
}

// wholeCharacters returns the length of a text without a character at its end whose bytes are not all there.
func wholeCharacters(text []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if begin := len(text) - i; utf8.RuneStart(text[begin]) {
			if !utf8.FullRune(text[begin:]) {
				return begin
			}
			break
		}
	}
	return len(text)
}

// Waiting reports whether an incomplete line waits for its end.
func (s *Stream) Waiting() bool { return len(s.partial) > 0 }

// Flush writes an incomplete line as a record. When the output has ended, it is called until nothing waits.
func (s *Stream) Flush(now time.Time) {
	if len(s.partial) == 0 {
		return
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.cut(now)
	s.w.flush(now, false)
}
