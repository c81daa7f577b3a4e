package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/raft-wal/segment"
)

// sectorBytes is the size of the blocks that disks write completely or not at all. (For most disks it is 4096 bytes.)
const sectorBytes = 512

// cutShort distinguishes a write that a crash cut short from one that was complete and was damaged later. The former
// was never acknowledged, and is dropped. The latter may have been acknowledged, and dropping it could lose entries
// that a majority has accepted.
//
// A segment consists of zeros until it is written. So in a write that was cut short some sectors have their content,
// and at least one still has zeros. cutShort returns nil if the write may have been cut short. Otherwise the error says
// why it was not.
//
// The write begins at byte from and its frames at byte at; in the first write of a segment the header is between them.
// No byte from written on is written. next is the index of the first entry of the write.
func cutShort(b []byte, written, from, at int, next uint64) error {
	missing := func(at int) bool {
		begin := at / sectorBytes * sectorBytes
		return allZero(b[max(begin, from):min(begin+sectorBytes, len(b))])
	}
	payloadMissing := false
	for at+frameHeader <= len(b) {
		if missing(at) {
			if at < written {
				return nil // the sector of this frame is missing
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
	// The last frame extends beyond the written bytes. If these end like a complete write, the length of a frame is
	// wrong.
	if end := (written - 1) &^ 7; end+frameHeader <= len(b) && end > from && binary.LittleEndian.Uint32(b[end:]) == uint32(segment.FrameCommit) {
		return errors.New("its end is there, and a length in it is wrong")
	}
	return nil
}

// beginsFrame reports whether the part of a payload in its first sector begins like an entry with an index, or like the
// index of a segment.
func beginsFrame(payload []byte, kind uint32, index uint64) bool {
	want := binary.AppendUvarint(nil, index) // the payload of an entry begins with its index
	if kind == uint32(segment.FrameIndex) {
		want = binary.LittleEndian.AppendUint32(nil, segmentHeader) // the index of a segment begins with the position of the first entry
	}
	n := min(len(payload), len(want))
	return bytes.Equal(payload[:n], want[:n])
}

func allZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
