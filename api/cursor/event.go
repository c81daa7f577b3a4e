package cursor

import (
	"math"
	"strconv"
	"strings"
)

// All is a position after all events of an index.
const All = math.MaxInt32

// Event is the position of a watcher of events: the state index, and the position among the events of that index.
type Event struct {
	Index    uint64
	Position int
}

// String returns "index.position".
func (c Event) String() string {
	return strconv.FormatUint(c.Index, 10) + "." + strconv.Itoa(c.Position)
}

// ParseEvent parses the result of String.
func ParseEvent(text string) (c Event, ok bool) {
	a, b, found := strings.Cut(text, ".")
	index, err1 := strconv.ParseUint(a, 10, 64)
	position, err2 := strconv.Atoi(b)
	return Event{index, position}, found && err1 == nil && err2 == nil && position >= 0 && position <= All
}
