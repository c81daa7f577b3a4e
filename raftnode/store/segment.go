package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

const walMetaFile = metadb.FileName

// A segment is a header and then frames. A frame is a header of 8 bytes and its payload, padded to a multiple of 8
// bytes.
const (
	segmentHeader = 32
	frameHeader   = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segmentWalk is the result of reading a segment.
type segmentWalk struct {
	size int
	// header is the description of the segment in its file; zero: the file is empty.
	header types.SegmentInfo
	// end is the end of the last complete commit; 0: there is none.
	end int
	// entries is the number of entries in complete commits.
	entries int
	// index is the beginning of the index of a sealed segment; 0: the segment is not sealed.
	index int
	// torn says that there are bytes of an unfinished write after the last complete commit.
	torn bool
}

// walkSegment reads a segment and checks the checksum of every commit. Bytes after the last complete commit must look
// like a write that a crash cut short: see cutShort.
func walkSegment(name string) (segmentWalk, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return segmentWalk{}, err
	}
	return walkBytes(b)
}

func walkBytes(b []byte) (w segmentWalk, err error) {
	w.size = len(b)
	if len(b) < segmentHeader {
		w.torn = len(b) > 0
		return w, nil
	}
	w.header = types.SegmentInfo{
		BaseIndex: binary.LittleEndian.Uint64(b[8:]), ID: binary.LittleEndian.Uint64(b[16:]), Codec: binary.LittleEndian.Uint64(b[24:]),
	}
	from, end := 0, segmentHeader // of the commits so far; the first one includes the header
	for {
		c, err := nextCommit(b, from, end)
		if c.whole {
			from, end = c.end, c.end
			w.end, w.entries, w.index = c.end, w.entries+c.entries, c.index
			continue
		}
		if later, ok := laterCommit(b, end); ok {
			if err == nil {
				err = errors.New("a commit is missing")
			}
			return w, fmt.Errorf("bytes %d to %d are damaged, and what comes after them is whole (%w)", end, later, err)
		}
		written := len(bytes.TrimRight(b, "\x00"))
		if w.torn = written > w.end; w.torn {
			if damage := cutShort(b, written, from, end, w.header.BaseIndex+uint64(w.entries)); damage != nil {
				return w, fmt.Errorf("the newest write, of bytes %d to %d, is damaged (%w)", from, written, damage)
			}
		}
		return w, nil
	}
}

// laterCommit returns the position of a commit frame at or after from that a complete commit follows.
func laterCommit(b []byte, from int) (at int, ok bool) {
	for at = from; at+frameHeader <= len(b); at += frameHeader {
		if binary.LittleEndian.Uint32(b[at:]) != uint32(segment.FrameCommit) {
			continue
		}
		if c, err := nextCommit(b, at+frameHeader, at+frameHeader); err == nil && c.whole {
			return at, true
		}
	}
	return 0, false
}

// commit describes the frames of one write.
type commit struct {
	whole          bool
	end            int
	entries, index int
}

// nextCommit reads the commit after another one. If the commit is not complete and there is no error, no write was
// begun there.
func nextCommit(b []byte, from, at int) (c commit, err error) {
	begin := at
	for at+frameHeader <= len(b) {
		kind, n := binary.LittleEndian.Uint32(b[at:]), binary.LittleEndian.Uint32(b[at+4:])
		switch kind {
		case uint32(segment.FrameInvalid):
			if at == begin && n == 0 {
				return commit{}, nil
			}
			return commit{}, fmt.Errorf("the write at byte %d has no end", begin)
		case uint32(segment.FrameEntry), uint32(segment.FrameIndex):
			if kind == uint32(segment.FrameEntry) {
				c.entries++
			} else {
				c.index = at + frameHeader
			}
			at += frameHeader + (int(n)+7)&^7
		case uint32(segment.FrameCommit):
			if crc32.Checksum(b[from:at], castagnoli) != n {
				return commit{}, fmt.Errorf("the checksum of bytes %d to %d is wrong", from, at)
			}
			c.whole, c.end = true, at+frameHeader
			return c, nil
		default:
			return commit{}, fmt.Errorf("byte %d begins a frame of an unknown kind", at)
		}
	}
	if at == begin {
		return commit{}, nil
	}
	return commit{}, fmt.Errorf("the write at byte %d is cut off", begin)
}
