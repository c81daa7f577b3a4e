package output

import (
	"iter"
	"slices"
)

const (
	// MaxTailBytes limits the memory for lines of several ranks while their newest lines are found, whatever number was
	// requested.
	MaxTailBytes = 16 << 20
	// lineCost is the memory of a line beside its text.
	lineCost = 128
	// messageBytes is about the size of one message.
	messageBytes = 1 << 20
)

// newest keeps the newest lines of several ranks, each of which arrives in order: at most a number of lines, and at
// most MaxTailBytes.
type newest struct {
	most   int
	lines  []logLine
	bytes  int
	latest map[uint16]int64
	// sorted is the number of lines at the front that are in order.
	sorted int
}

func costOf(l logLine) int { return len(l.entry.Line) + lineCost }

// take adds lines of a rank. For lines that it drops at the front it advances offsets.
func (n *newest) take(lines []logLine, offsets map[uint16]uint64) {
	n.lines = append(n.lines, lines...)
	for _, l := range lines {
		n.bytes += costOf(l)
	}
	// Sorting from time to time is enough.
	if n.bytes > 2*MaxTailBytes || len(n.lines)/2 > max(n.most, 1000) {
		n.cut(offsets)
	}
}

// cut sorts the lines and drops the oldest beyond the limits.
func (n *newest) cut(offsets map[uint16]uint64) {
	if n.latest == nil {
		n.latest = map[uint16]int64{}
	}
	inOrder(n.lines, n.sorted, n.latest)
	drop := 0
	for drop < len(n.lines) && (len(n.lines)-drop > n.most || n.bytes > MaxTailBytes) {
		l := n.lines[drop]
		offsets[l.rank] = l.entry.Offset
		n.bytes -= costOf(l)
		drop++
	}
	n.lines = slices.Delete(n.lines, 0, drop)
	n.sorted = len(n.lines)
}

// messages splits the lines into pieces that fit into messages.
func (n *newest) messages() iter.Seq[[]logLine] {
	return func(yield func([]logLine) bool) {
		from, size := 0, 0
		for i, l := range n.lines {
			if size += costOf(l); size >= messageBytes || i == len(n.lines)-1 {
				if !yield(n.lines[from : i+1]) {
					return
				}
				from, size = i+1, 0
			}
		}
	}
}
