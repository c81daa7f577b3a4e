// Package record defines the format of a task's log, on its node and in an archive: a line of text is
//
//	<unix nanoseconds> <kind> <text>\n
//
// The package is part of the shim, whose start delays every launch, so it imports little.
package record

import (
	"bytes"
	"errors"
	"strconv"
)

// Kind is the source of a record.
type Kind byte

// The kinds of records.
const (
	Stdout Kind = 'o'
	Stderr Kind = 'e'
	Remark Kind = 'm'
)

// Entry is one record.
type Entry struct {
	// Offset is the position after the record.
	Offset uint64
	// UnixNanos is when the shim read the line.
	UnixNanos int64
	Kind      Kind
	// Text is valid UTF-8: invalid bytes were replaced.
	Text string
}

var (
	errBadRecord = errors.New("not a record of a task log")
	replacement  = []byte("\uFFFD")
)

// Parse parses a record without its line end. A damaged record becomes a remark, and ok is false.
func Parse(line []byte) (e Entry, ok bool) {
	e, err := parse(line)
	if err != nil {
		return Entry{Kind: Remark, Text: "mind: damaged record in the task's log"}, false
	}
	return e, true
}

// Removed returns a remark about a removed part of a log. Its offset is the one at which the log continues.
func Removed(from, to uint64) Entry {
	return Entry{Offset: to, Kind: Remark, Text: "mind: " + strconv.FormatUint(to-from, 10) + " bytes of log were removed by the size limit"}
}

func parse(line []byte) (Entry, error) {
	space := bytes.IndexByte(line, ' ')
	if space <= 0 || len(line) < space+3 || line[space+2] != ' ' {
		return Entry{}, errBadRecord
	}
	nanos, err := strconv.ParseInt(string(line[:space]), 10, 64)
	if err != nil {
		return Entry{}, errBadRecord
	}
	kind := Kind(line[space+1])
	if kind != Stdout && kind != Stderr && kind != Remark {
		return Entry{}, errBadRecord
	}
	return Entry{UnixNanos: nanos, Kind: kind, Text: string(bytes.ToValidUTF8(line[space+3:], replacement))}, nil
}
