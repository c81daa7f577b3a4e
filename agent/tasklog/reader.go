package tasklog

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/mindcoordinator/mind/agent/taskfile"
	"github.com/mindcoordinator/mind/archive/record"
)

// Reader reads a log that may be growing. Only one goroutine may use it.
type Reader struct {
	dir    string
	offset uint64
	file   *os.File
	base   uint64
	buf    []byte
	since  int64
}

// NewReader returns a reader at the start of the log in dir. The directory need not exist yet.
func NewReader(dir string) *Reader { return &Reader{dir: dir} }

// Close closes the reader.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// Offset returns the offset of the next record.
func (r *Reader) Offset() uint64 { return r.offset }

// Since makes the reader skip records that were printed before a time.
func (r *Reader) Since(unixNanos int64) { r.since = unixNanos }

// SeekOffset moves to an offset from an Entry. An offset inside a record is moved to the record's end.
func (r *Reader) SeekOffset(offset uint64) error {
	_ = r.Close()
	r.offset = offset
	if offset == 0 {
		return nil
	}
	bases, err := segments(r.dir)
	if err != nil {
		return wrap("list log segments", err)
	}
	base, ok := covering(bases, offset)
	if !ok || base == offset {
		return nil
	}
	file, size, err := openSegment(r.dir, base)
	if err != nil {
		return wrap("open log segment", err)
	}
	defer file.Close()
	// The byte before the offset shows whether a record ends there. Past the end of the file there is nothing yet.
	at := int64(offset - base - 1)
	buf := make([]byte, 4096)
	for at < size {
		n, err := file.ReadAt(buf, at)
		if end := bytes.IndexByte(buf[:n], '\n'); end >= 0 {
			r.offset = base + uint64(at) + uint64(end) + 1
			return nil
		}
		at += int64(n)
		if err != nil {
			return ignoreEOF(err)
		}
	}
	return nil
}

// SeekTail moves to n records before the present end.
func (r *Reader) SeekTail(n int) error {
	_ = r.Close()
	bases, err := segments(r.dir)
	if err != nil {
		return wrap("list log segments", err)
	}
	left := n
	for i := len(bases) - 1; i >= 0; i-- {
		offset, found, err := r.tailOfSegment(bases[i], &left)
		if err != nil {
			return wrap("read log segment", err)
		}
		if found {
			r.offset = offset
			return nil
		}
	}
	r.offset = 0
	if len(bases) > 0 {
		r.offset = bases[0]
	}
	return nil
}

// tailOfSegment counts line ends backwards, and finds the offset from which on left records follow.
func (r *Reader) tailOfSegment(base uint64, left *int) (offset uint64, found bool, err error) {
	file, end, err := openSegment(r.dir, base)
	if err != nil {
		return 0, false, err
	}
	defer file.Close()
	buf := make([]byte, 64<<10)
	for end > 0 {
		start := max(0, end-int64(len(buf)))
		chunk := buf[:end-start]
		if _, err := file.ReadAt(chunk, start); err != nil && !errors.Is(err, io.EOF) {
			return 0, false, err
		}
		for i := len(chunk) - 1; i >= 0; i-- {
			if chunk[i] != '\n' {
				continue
			}
			if *left == 0 {
				return base + uint64(start) + uint64(i) + 1, true, nil
			}
			*left--
		}
		end = start
	}
	if *left == 0 {
		return base, true, nil
	}
	return 0, false, nil
}

// Next returns the next records, at most limit. An empty result without an error means that no more records exist yet.
func (r *Reader) Next(limit int) ([]Entry, error) {
	var entries []Entry
	for len(entries) < limit {
		if r.file == nil {
			opened, gap, err := r.open()
			if err != nil {
				return entries, err
			}
			if gap != nil {
				entries = append(entries, *gap)
			}
			if !opened {
				return entries, nil
			}
		}
		before := r.offset
		var err error
		if entries, err = r.fill(entries, limit); err != nil {
			return entries, err
		}
		if r.offset != before {
			continue
		}
		if !r.moved() {
			return entries, nil
		}
		_ = r.Close()
	}
	return entries, nil
}

// moved reports whether the log continues in another segment than the open one, which was read to its end: the next
// segment exists, or the open one was removed by the size limit while it was read.
func (r *Reader) moved() bool {
	if r.offset == r.base {
		return false
	}
	if _, _, err := taskfile.Size(r.dir, segmentName(r.offset)); err == nil {
		return true
	}
	_, _, err := taskfile.Size(r.dir, segmentName(r.base))
	return errors.Is(err, os.ErrNotExist)
}

// open opens the segment that contains the offset.
func (r *Reader) open() (opened bool, gap *Entry, err error) {
	bases, err := segments(r.dir)
	if err != nil {
		return false, nil, wrap("list log segments", err)
	}
	base, ok := covering(bases, r.offset)
	if !ok {
		if len(bases) == 0 {
			return false, nil, nil
		}
		// The records at the offset were removed by the size limit.
		base = bases[0]
		removed := record.Removed(r.offset, base)
		gap, r.offset = &removed, base
	}
	file, _, err := openSegment(r.dir, base)
	if errors.Is(err, os.ErrNotExist) {
		// The segment was removed between listing and opening; the next call finds the gap.
		return false, gap, nil
	}
	if err != nil {
		return false, gap, wrap("open log segment", err)
	}
	r.file, r.base = file, base
	return true, gap, nil
}

// fill parses records from the open segment.
func (r *Reader) fill(entries []Entry, limit int) ([]Entry, error) {
	if r.buf == nil {
		r.buf = make([]byte, 2*MaxLine)
	}
	at := int64(r.offset - r.base)
	n, err := r.file.ReadAt(r.buf[:max(0, min(int64(len(r.buf)), maxSegment-at))], at)
	if err := ignoreEOF(err); err != nil {
		return entries, wrap("read log segment", err)
	}
	data := r.buf[:n]
	for len(entries) < limit {
		end := bytes.IndexByte(data, '\n')
		if end < 0 && len(data) == len(r.buf) {
			end = len(data) - 1 // longer than any record: the writer did not write it
		}
		if end < 0 {
			return entries, nil
		}
		r.offset += uint64(end) + 1
		entry, ok := record.Parse(data[:end])
		data = data[end+1:]
		if entry.UnixNanos < r.since && ok {
			continue
		}
		entry.Offset = r.offset
		entries = append(entries, entry)
	}
	return entries, nil
}

// covering returns the last base at or before the offset.
func covering(bases []uint64, offset uint64) (uint64, bool) {
	for i := len(bases) - 1; i >= 0; i-- {
		if bases[i] <= offset {
			return bases[i], true
		}
	}
	return 0, false
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// readError wraps an error with what was being done. Package fmt would slow down the start of the shim.
type readError struct {
	doing string
	err   error
}

func wrap(doing string, err error) error { return &readError{doing, err} }

func (e *readError) Error() string { return e.doing + ": " + e.err.Error() }
func (e *readError) Unwrap() error { return e.err }
