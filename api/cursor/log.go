// Package cursor formats and parses the positions of stream readers. They are opaque to users; the coordinators write and
// read them, and the gateway compares them so that many readers can share one stream.
package cursor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Log is the position of a reader of a job's logs or metrics: the attempt, and the offset in the log of each rank. Offsets
// count from the start of the task's log as if it were not rotated, so a cursor stays valid when the gateway, the
// coordinator or the agent that served it is gone.
type Log struct {
	Attempt uint32
	Offsets map[uint16]uint64
}

// maxOffset is larger than any file: agents seek to offsets, which operating systems store in 63 bits.
const maxOffset = 1 << 62

// String returns "attempt:rank=offset,rank=offset".
func (c Log) String() string {
	var b strings.Builder
	b.WriteString(strconv.FormatUint(uint64(c.Attempt), 10))
	sep := byte(':')
	for _, rank := range slices.Sorted(maps.Keys(c.Offsets)) {
		b.WriteByte(sep)
		b.WriteString(strconv.FormatUint(uint64(rank), 10))
		b.WriteByte('=')
		b.WriteString(strconv.FormatUint(c.Offsets[rank], 10))
		sep = ','
	}
	return b.String()
}

// ParseLog parses the result of String. The empty text is the beginning of the log.
func ParseLog(text string) (Log, error) {
	c := Log{Offsets: map[uint16]uint64{}}
	if text == "" {
		return c, nil
	}
	bad := fmt.Errorf("%.60q is not a cursor: send the id of the last event unchanged", text)
	head, tail, _ := strings.Cut(text, ":")
	attempt, err := strconv.ParseUint(head, 10, 32)
	if err != nil || attempt == 0 {
		return c, bad
	}
	c.Attempt = uint32(attempt)
	if tail == "" {
		return c, nil
	}
	for pair := range strings.SplitSeq(tail, ",") {
		r, o, ok := strings.Cut(pair, "=")
		rank, err1 := strconv.ParseUint(r, 10, 16)
		offset, err2 := strconv.ParseUint(o, 10, 64)
		if !ok || err1 != nil || err2 != nil || offset > maxOffset {
			return c, bad
		}
		c.Offsets[uint16(rank)] = offset
	}
	return c, nil
}

// At reads the attempt and the offset of one rank from a cursor's text. It does not check the rest of the text.
func At(text string, rank uint16) (attempt uint32, offset uint64, ok bool) {
	head, tail, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(head, 10, 32)
	if err != nil || n == 0 {
		return 0, 0, false
	}
	for tail != "" {
		var pair string
		pair, tail, _ = strings.Cut(tail, ",")
		r, o, _ := strings.Cut(pair, "=")
		if k, err := strconv.ParseUint(r, 10, 16); err != nil || uint16(k) != rank {
			if err != nil {
				return 0, 0, false
			}
			continue
		}
		offset, err = strconv.ParseUint(o, 10, 64)
		return uint32(n), offset, err == nil && offset <= maxOffset
	}
	return uint32(n), 0, true
}
