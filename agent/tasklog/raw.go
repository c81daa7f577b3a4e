package tasklog

import (
	"bytes"
	"errors"
	"os"

	"github.com/mindcoordinator/mind/agent/taskfile"
)

// Piece is a run of whole records in their encoded form.
type Piece struct {
	// Offset is the offset of the first byte. It is larger than the requested one if the records there were removed by
	// the size limit.
	Offset uint64
	Data   []byte
}

// End returns the offset at which a log ends, which may be within a record, and the offset up to which its segments are
// closed.
func End(dir string) (there, closed uint64, err error) {
	for {
		bases, err := segments(dir)
		if err != nil {
			return 0, 0, wrap("list log segments", err)
		}
		if len(bases) == 0 {
			return 0, 0, nil
		}
		last := bases[len(bases)-1]
		size, _, err := taskfile.Size(dir, segmentName(last))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed between listing and looking
		}
		if err != nil {
			return 0, 0, wrap("look at log segment", err)
		}
		return last + uint64(min(size, maxSegment)), last, nil
	}
}

// ReadRaw returns the records from an offset on, at most most bytes (more than one record) and from one segment. An
// empty piece without an error means that no more records exist yet.
func ReadRaw(dir string, offset uint64, most int) (Piece, error) {
	for {
		bases, err := segments(dir)
		if err != nil {
			return Piece{}, wrap("list log segments", err)
		}
		piece, next, err := readRaw(dir, bases, offset, most)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed between listing and opening
		}
		if err != nil || len(piece.Data) > 0 || next == offset {
			return piece, err
		}
		offset = next
	}
}

// readRaw reads from the segment that contains the offset. If that segment is closed and was read to its end, next is
// the offset at which the log continues.
func readRaw(dir string, bases []uint64, offset uint64, most int) (piece Piece, next uint64, err error) {
	if len(bases) == 0 {
		return Piece{Offset: offset}, offset, nil
	}
	base, ok := covering(bases, offset)
	if !ok {
		base, offset = bases[0], bases[0]
	}
	file, size, err := openSegment(dir, base)
	if err != nil {
		return Piece{}, 0, err
	}
	defer file.Close()
	data := make([]byte, min(int64(most), max(0, size-int64(offset-base))))
	n, err := file.ReadAt(data, int64(offset-base))
	if err := ignoreEOF(err); err != nil {
		return Piece{}, 0, wrap("read log segment", err)
	}
	piece = Piece{Offset: offset, Data: data[:bytes.LastIndexByte(data[:n], '\n')+1]}
	next = offset + uint64(len(piece.Data))
	after, ok := following(bases, base)
	if !ok || n == most {
		return piece, next, nil // the segment may still grow
	}
	// Bytes after the last whole record of a closed segment were never a record.
	return piece, max(next, after), nil
}

// following returns the first base after the given one.
func following(bases []uint64, base uint64) (uint64, bool) {
	for _, b := range bases {
		if b > base {
			return b, true
		}
	}
	return 0, false
}
