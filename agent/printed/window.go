package printed

import (
	"slices"
	"time"
)

const (
	// span and most limit what is kept: 10 lines a second.
	span = int64(500 * time.Millisecond)
	most = 5
)

// window has the lines of one span of time, by the clock of the log. So the same lines are kept whenever they are read.
type window struct {
	id    int64
	lines []line
	// from is the offset of the record of its first line, count the losses without steps before it.
	from  uint64
	count int64
}

// takes reports whether a line that was printed at a time belongs into the window. stdout and stderr may be out of order
// by a little; a clock may have been set back by more.
func (w *window) takes(nanos int64) bool {
	id := nanos / span
	return id == w.id || id == w.id-1
}

// over reports whether no more lines will come.
func (w *window) over(now time.Time) bool {
	id := now.UnixNano() / span
	return id > w.id || id < w.id-1
}

// add keeps a line. A line too many replaces the oldest one with numbers that a newer one has, too: an evaluation between
// many steps stays.
func (w *window) add(l line) {
	if n := len(w.lines); n > 0 && w.lines[n-1].equal(l) {
		return // a progress bar that was drawn again
	}
	w.lines = append(w.lines, l)
	if len(w.lines) <= most {
		return
	}
	drop := 0
	for i, old := range w.lines {
		if slices.ContainsFunc(w.lines[i+1:], func(newer line) bool { return slices.Equal(newer.names, old.names) }) {
			drop = i
			break
		}
	}
	w.lines = slices.Delete(w.lines, drop, drop+1)
}

// close appends the lines, and empties the window.
func (w *window) close(to []byte) []byte {
	for _, one := range w.lines {
		to = one.json(to)
	}
	w.lines = w.lines[:0]
	return to
}
