package printed

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/tasklog"
	"github.com/mindcoordinator/mind/archive/record"
)

const (
	// maxLookBytes limits how much of the log one look reads, maxPiece how much at once.
	maxLookBytes = 16 << 20
	maxPiece     = 256 << 10
	// maxOut limits what one look appends to the metrics file.
	maxOut = 256 << 10
	// maxLast limits how much of the log is read when the task has ended: the end must not wait for an old part of it.
	maxLast = 64 << 20
	// maxAgain limits how much of the log the next agent reads again.
	maxAgain = 4 << 20
	// grace is how long after its first report a program may make its own metrics file. Frameworks print first.
	grace = time.Second
)

// Reader reads the log of one task.
type Reader struct {
	dir, log string
	patterns *Patterns // nil: nothing is read
	premade  bool
	most     int64 // of the metrics file
	file     *file // nil before the first look

	at     uint64 // offset in the log
	count  int64  // of losses in rows without steps
	window window
	out    []byte // lines for the metrics file
	first  int64  // when the first of them was printed, in Unix nanoseconds
	next   []int  // for each needle, where it is next; reused
}

// Open returns a Reader of the task in a directory. limit is how much of the metrics file is read; 0: all. An error says
// what is wrong with the job's own pattern; nothing is read then. premade: the shim has made the metrics file, so that an
// empty one is not the program's.
func Open(dir string, env []string, limit int64, premade bool) (*Reader, error) {
	own := ""
	for _, one := range env {
		if value, ok := strings.CutPrefix(one, PatternVariable+"="); ok {
			own = value
		}
	}
	patterns, err := Parse(own)
	return &Reader{dir: dir, log: filepath.Join(dir, shim.LogDir), patterns: patterns, most: limit, premade: premade}, err
}

// Look reads what was printed since the last look, and reports whether there is more. last: the task has ended, so that
// no more will follow.
func (r *Reader) Look(ctx context.Context, now time.Time, last bool) (more bool, err error) {
	if r.patterns == nil {
		return false, nil
	}
	if r.file == nil {
		r.file = openFile(r.dir, r.premade)
		r.at, r.count = r.file.saved.Log, r.file.saved.Count
	}
	ours, err := r.file.settle()
	switch {
	case err != nil:
		return false, err
	case !ours || r.most > 0 && r.file.saved.Metrics > r.most:
		r.patterns, r.window, r.out = nil, window{}, nil
		return false, nil
	}
	if last {
		if err := r.skip(); err != nil {
			return false, err
		}
	}
	more, err = r.read(ctx)
	if err != nil {
		return false, err
	}
	if len(r.window.lines) > 0 && !more && (last || r.window.over(now)) {
		r.out = r.window.close(r.out)
	}
	if age := now.UnixNano() - r.first; r.file.saved.Metrics == 0 && len(r.out) > 0 && !last && age >= 0 && age < int64(grace) {
		return more, nil
	}
	return more, r.save()
}

// skip leaves out what is too long ago.
func (r *Reader) skip() error {
	end, _, err := tasklog.End(r.log)
	if err != nil || end < r.at+maxLast {
		return err
	}
	r.out = r.window.close(r.out)
	r.at = end - maxLast // within a record, the rest of which is none
	return nil
}

// read reads the log, as much as one look may.
func (r *Reader) read(ctx context.Context) (more bool, err error) {
	for left := maxLookBytes; left > 0 && len(r.out) < maxOut && ctx.Err() == nil; {
		piece, err := tasklog.ReadRaw(r.log, r.at, maxPiece)
		if err != nil {
			return false, err
		}
		if len(piece.Data) == 0 {
			return false, nil
		}
		left -= len(piece.Data)
		r.scan(piece)
	}
	return true, nil
}

// scan takes the records of a piece that may be reports. It jumps from one needle to the next, so that nothing else is
// looked at.
func (r *Reader) scan(piece tasklog.Piece) {
	data := piece.Data
	needles := r.patterns.needles
	r.next = append(r.next[:0], make([]int, len(needles))...)
	for i := range r.next {
		r.next[i] = -1
	}
	for pos := 0; pos < len(data); {
		first := pos
		if len(needles) > 0 {
			first = len(data)
			for i, needle := range needles {
				if r.next[i] < pos {
					r.next[i] = len(data)
					if at := bytes.Index(data[pos:], needle); at >= 0 {
						r.next[i] = pos + at
					}
				}
				first = min(first, r.next[i])
			}
			if first == len(data) {
				break
			}
		}
		begin := pos + bytes.LastIndexByte(data[pos:first], '\n') + 1
		end := begin + bytes.IndexByte(data[begin:], '\n') // each record of a piece has its end
		r.record(data[begin:end], piece.Offset+uint64(begin))
		pos = end + 1
	}
	r.at = piece.Offset + uint64(len(data))
}

// record takes the reports of one record. There are several if a progress bar was drawn again and again.
func (r *Reader) record(text []byte, offset uint64) {
	e, ok := record.Parse(text)
	if !ok || e.Kind == record.Remark {
		return
	}
	printed := []byte(e.Text)
	for len(printed) > 0 {
		one, rest, cut := bytes.Cut(printed, []byte{'\r'})
		whole := cut || len(e.Text) < tasklog.MaxLine
		printed = rest
		if whole && len(one) <= maxLine && r.may(one) {
			r.line(one, e.UnixNanos, offset)
		}
	}
}

// may reports whether a line has a needle.
func (r *Reader) may(text []byte) bool {
	for _, needle := range r.patterns.needles {
		if bytes.Contains(text, needle) {
			return true
		}
	}
	return len(r.patterns.needles) == 0
}

func (r *Reader) line(text []byte, nanos int64, offset uint64) {
	l, ok := r.patterns.match(text)
	if !ok {
		return
	}
	if r.first == 0 {
		r.first = nanos
	}
	if !r.window.takes(nanos) {
		r.out = r.window.close(r.out)
	}
	if len(r.window.lines) == 0 {
		r.window = window{id: nanos / span, lines: r.window.lines, from: offset, count: r.count}
	}
	if l.row && l.step < 0 {
		if slices.Contains(l.names, "loss") {
			r.count++
		}
		if r.count > 0 {
			l.step = r.count
		}
	}
	r.window.add(l)
}

// save writes the lines that are due, and how far the log is in them.
func (r *Reader) save() error {
	at, count := r.at, r.count
	if len(r.window.lines) > 0 {
		at, count = r.window.from, r.window.count
	}
	if len(r.out) == 0 && at < r.file.saved.Log+maxAgain {
		return nil
	}
	kept, err := r.file.append(at, count, r.out)
	if kept {
		r.out = r.out[:0]
	}
	return err
}
