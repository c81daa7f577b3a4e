package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/raft-wal/segment"
)

// sectorBytes is what disks write whole or not at all. (Most write 4096 bytes so.)
const sectorBytes = 512

// cutShort tells a write that a crash cut short from one that was whole once and is damaged now. The first was never
// acknowledged, and is dropped. The second may have been, and dropping it could lose what a majority has agreed on.
//
// A segment is zeros until it is written. So of a write that was cut short some sectors are there as they were written, and
// at least one is zeros still. nil: the write may be one. Otherwise the error says why it is not.
//
// The write begins at byte from, its frames at byte at; in the first write of a segment the header is between. What is
// written ends before byte written. next is the index of its first entry.
func cutShort(b []byte, written, from, at int, next uint64) error {
	missing := func(at int) bool {
		begin := at / sectorBytes * sectorBytes
		return allZero(b[max(begin, from):min(begin+sectorBytes, len(b))])
	}
	payloadMissing := false
	for at+frameHeader <= len(b) {
		if missing(at) {
			if at < written {
				return nil // the sector of this frame
			}
			break
		}
		kind, n, body := binary.LittleEndian.Uint32(b[at:]), int(binary.LittleEndian.Uint32(b[at+4:])), at+frameHeader
		switch kind {
		case uint32(segment.FrameEntry), uint32(segment.FrameIndex):
			if body >= len(b) || missing(body) {
				payloadMissing = true
			} else if !beginsFrame(b[body:min((body/sectorBytes+1)*sectorBytes, len(b))], kind, next) {
				return fmt.Errorf("the frame at byte %d does not hold what it should", at)
			}
			if kind == uint32(segment.FrameEntry) {
				next++
			}
			at = body + (n+7)&^7
			for sector := (body/sectorBytes + 1) * sectorBytes; sector < min(at, len(b)); sector += sectorBytes {
				payloadMissing = payloadMissing || missing(sector)
			}
		case uint32(segment.FrameCommit):
			if payloadMissing {
				return nil
			}
			return fmt.Errorf("all of it is there, and its checksum at byte %d is wrong", at)
		case uint32(segment.FrameInvalid):
			return fmt.Errorf("byte %d should begin a frame", at)
		default:
			return fmt.Errorf("byte %d begins a frame of an unknown kind", at)
		}
	}
	// The last frame goes on where nothing is written. If what is written ends like a whole write, its length is wrong.
	if end := (written - 1) &^ 7; end+frameHeader <= len(b) && end > from && binary.LittleEndian.Uint32(b[end:]) == uint32(segment.FrameCommit) {
		return errors.New("its end is there, and a length in it is wrong")
	}
	return nil
}

// beginsFrame says whether the beginning of a payload, as far as it lies in one sector, is that of an entry of an index, or of
// the index of a segment.
func beginsFrame(payload []byte, kind uint32, index uint64) bool {
	want := binary.AppendUvarint(nil, index) // an entry begins with its index
	if kind == uint32(segment.FrameIndex) {
		want = binary.LittleEndian.AppendUint32(nil, segmentHeader) // the index with where the first entry is
	}
	n := min(len(payload), len(want))
	return bytes.Equal(payload[:n], want[:n])
}

func allZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
