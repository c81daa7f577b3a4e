package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// cursor says how far a reader of a job's logs has come: the attempt, and the offset in the log of each rank. Its text is
// opaque to clients. Offsets are those of the task's log as it would be unrotated, so a cursor stays good when the
// gateway, the coordinator or the agent that served it is gone.
type cursor struct {
	attempt uint32
	offsets map[uint16]uint64
}

// String is "attempt:rank=offset,rank=offset".
func (c cursor) String() string {
	var b strings.Builder
	b.WriteString(strconv.FormatUint(uint64(c.attempt), 10))
	sep := byte(':')
	for _, rank := range slices.Sorted(maps.Keys(c.offsets)) {
		b.WriteByte(sep)
		b.WriteString(strconv.FormatUint(uint64(rank), 10))
		b.WriteByte('=')
		b.WriteString(strconv.FormatUint(c.offsets[rank], 10))
		sep = ','
	}
	return b.String()
}

// parseCursor reads what String wrote; the empty text is the start of everything.
func parseCursor(text string) (cursor, error) {
	c := cursor{offsets: map[uint16]uint64{}}
	if text == "" {
		return c, nil
	}
	bad := fmt.Errorf("%.60q is no cursor: send back the id of the last event that was seen, unchanged", text)
	head, tail, _ := strings.Cut(text, ":")
	attempt, err := strconv.ParseUint(head, 10, 32)
	if err != nil || attempt == 0 {
		return c, bad
	}
	c.attempt = uint32(attempt)
	if tail == "" {
		return c, nil
	}
	for pair := range strings.SplitSeq(tail, ",") {
		r, o, ok := strings.Cut(pair, "=")
		rank, err1 := strconv.ParseUint(r, 10, 16)
		offset, err2 := strconv.ParseUint(o, 10, 64)
		if !ok || err1 != nil || err2 != nil {
			return c, bad
		}
		c.offsets[uint16(rank)] = offset
	}
	return c, nil
}
