package tasklog

import (
	"bytes"
	"errors"
	"os"

	"github.com/mindcoordinator/mind/agent/taskfile"
)

// Piece is a run of whole records as they are kept.
type Piece struct {
	// Offset is that of the first byte. It is past the one that was asked for
	// when the retention bound took what was there.
	Offset uint64
	Data   []byte
}

// End returns the offset up to which a log is there, which may be within a
// record, and the one up to which its segments are closed.
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

// ReadRaw returns what is kept from an offset on, at most most bytes (more than
// one record) and out of one segment. None and no error means that nothing more
// is there now.
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

// readRaw reads out of the segment that holds the offset. When that one is
// closed and was read to its end, next is where the log goes on.
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
		return piece, next, nil // there may be more in the segment
	}
	// What a closed segment holds past its last whole record never was one.
	return piece, max(next, after), nil
}

// following returns the first base after another one.
func following(bases []uint64, base uint64) (uint64, bool) {
	for _, b := range bases {
		if b > base {
			return b, true
		}
	}
	return 0, false
}
