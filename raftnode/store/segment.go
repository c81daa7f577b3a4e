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
)

const walMetaFile = metadb.FileName

// The format of a segment: a header, then frames of 8 bytes and what they hold, filled up to 8 bytes.
const (
	segmentHeader = 32
	frameHeader   = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errNewest marks damage that a crash may have done: nobody was told yet that this write is on the disk.
var errNewest = errors.New("unless the machine crashed while it was written")

// segmentWalk is what a segment holds.
type segmentWalk struct {
	size int
	// end is where the last whole commit ends; 0: there is none.
	end int
	// entries are those of whole commits.
	entries int
	// index is where the index of a sealed segment begins; 0: the segment is not sealed.
	index int
	// torn: after the last whole commit there is something of a write that was not finished.
	torn bool
}

// walkSegment holds every commit of a segment to its checksum. What follows the last commit and is no whole commit is a
// write that a crash cut short, unless another commit comes after it: then it was whole once.
func walkSegment(name string) (w segmentWalk, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return w, err
	}
	w.size = len(b)
	if len(b) < segmentHeader {
		w.torn = len(b) > 0
		return w, fmt.Errorf("it is cut off after %d bytes: %w", len(b), errNewest)
	}
	from, end := 0, segmentHeader // of the commits so far; the first one counts the header in
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
		w.torn = len(bytes.Trim(b[w.end:], "\x00")) > 0
		if err != nil && c.end < 0 {
			return w, fmt.Errorf("%w, %w", err, errNewest)
		}
		return w, nil
	}
}

// laterCommit finds a commit that another, whole one follows.
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

// commit is what was written at once.
type commit struct {
	whole bool
	// end is where it ends; negative: its end is there, and its checksum is wrong.
	end            int
	entries, index int
}

// nextCommit goes from one commit to the end of the next. Without a whole commit and without an error nothing was begun.
func nextCommit(b []byte, from, at int) (c commit, err error) {
	begin := at
	for at+frameHeader <= len(b) {
		kind, n := binary.LittleEndian.Uint32(b[at:]), binary.LittleEndian.Uint32(b[at+4:])
		switch kind {
		case uint32(segment.FrameInvalid):
			if at == begin && n == 0 {
				return commit{end: at}, nil
			}
			return commit{end: at}, fmt.Errorf("the write at byte %d has no end", begin)
		case uint32(segment.FrameEntry), uint32(segment.FrameIndex):
			if kind == uint32(segment.FrameEntry) {
				c.entries++
			} else {
				c.index = at + frameHeader
			}
			at += frameHeader + (int(n)+7)&^7
		case uint32(segment.FrameCommit):
			if crc32.Checksum(b[from:at], castagnoli) != n {
				return commit{end: -1}, fmt.Errorf("the checksum of bytes %d to %d is wrong", from, at)
			}
			c.whole, c.end = true, at+frameHeader
			return c, nil
		default:
			return commit{end: at}, fmt.Errorf("byte %d begins a frame of an unknown kind", at)
		}
	}
	if at == begin {
		return commit{end: at}, nil
	}
	return commit{end: at}, fmt.Errorf("the write at byte %d is cut off", begin)
}
