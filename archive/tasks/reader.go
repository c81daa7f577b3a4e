package tasks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/record"
)

// ErrDamaged means that a part does not match its manifest.
var ErrDamaged = errors.New("part of the archive is damaged")

// lines reads the lines of a stream, part by part.
type lines struct {
	store    archive.Store
	manifest *Manifest
	stream   Stream
	offset   uint64
	part     Part
	data     []byte
	// begun is the start of a line that does not end in its part.
	begun []byte
}

// seek moves to an offset. An offset inside a line is moved to the line's end.
func (l *lines) seek(ctx context.Context, offset uint64) error {
	l.offset = offset
	p, ok := l.covering()
	if !ok || p.Offset == offset {
		return nil
	}
	data, err := l.fetch(ctx, p)
	if err != nil {
		return err
	}
	// The byte before the offset shows whether a line ends there.
	at := offset - p.Offset - 1
	if end := bytes.IndexByte(data[at:], '\n'); end >= 0 {
		l.offset = p.Offset + at + uint64(end) + 1
	} else {
		l.offset = p.End()
	}
	return nil
}

// covering returns the part that contains the next byte, or the next part.
func (l *lines) covering() (Part, bool) {
	for _, p := range l.manifest.Parts(l.stream) {
		if l.offset < p.End() {
			return p, true
		}
	}
	return Part{}, false
}

// fetch reads a part. The object may have grown since the manifest was written; its beginning is unchanged.
func (l *lines) fetch(ctx context.Context, p Part) ([]byte, error) {
	if l.data != nil && l.part == p {
		return l.data, nil
	}
	key := partKey(l.manifest.Task, l.stream, p.Offset)
	body, err := l.store.Get(ctx, key, 0)
	if errors.Is(err, archive.ErrNotFound) {
		return nil, fmt.Errorf("%s is not there: %w", key, ErrDamaged) // although the manifest names it
	}
	if err != nil {
		return nil, err
	}
	data := make([]byte, p.Size)
	_, err = io.ReadFull(body, data)
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != p.SHA256 {
		return nil, fmt.Errorf("%s: %w", key, ErrDamaged)
	}
	l.part, l.data = p, data
	return data, nil
}

// each calls take for the lines from the offset on, without their line ends, until take returns false or all lines were
// read; all reports which. Of a line that is longer than a part only the beginning is passed. gap is called when bytes
// are missing.
func (l *lines) each(ctx context.Context, gap func(from, to uint64) (more bool), take func(line []byte, long bool, p Part) (more bool)) (all bool, err error) {
	for {
		p, ok := l.covering()
		if !ok {
			return true, nil
		}
		if l.offset < p.Offset {
			from := l.offset
			l.offset, l.begun = p.Offset, nil
			if !gap(from, p.Offset) {
				return false, nil
			}
		}
		data, err := l.fetch(ctx, p)
		if err != nil {
			return false, err
		}
		for l.offset < p.End() {
			rest := data[l.offset-p.Offset:]
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				if l.begun == nil {
					l.begun = rest[:min(len(rest), keptOfLong)]
				}
				l.offset = p.End()
				break
			}
			line, long := rest[:end], l.begun != nil
			if long {
				line = l.begun
			}
			l.offset += uint64(end) + 1
			l.begun = nil
			if !take(line, long, p) {
				return false, nil
			}
		}
	}
}

// ReadSeries reads the metric series of a task. If there are none, the error is archive.ErrNotFound.
func ReadSeries(ctx context.Context, store archive.Store, m *Manifest) ([]byte, error) {
	if m.Series == nil {
		return nil, fmt.Errorf("the series of attempt %d, rank %d of job %s: %w", m.Attempt, m.Rank, m.Job, archive.ErrNotFound)
	}
	if m.Series.Size > maxSeries {
		return nil, fmt.Errorf("series of %d bytes: %w", m.Series.Size, ErrDamaged)
	}
	l := lines{store: store, manifest: m, stream: series}
	return l.fetch(ctx, *m.Series)
}

// maxSeries limits the size of the series of a task.
const maxSeries = 16 << 20

// LogReader reads a log from the archive. Only one goroutine may use it.
type LogReader struct {
	lines lines
	since int64
}

// NewLogReader returns a reader at the start of the log.
func NewLogReader(store archive.Store, m *Manifest) *LogReader {
	return &LogReader{lines: lines{store: store, manifest: m, stream: Log}}
}

// Since makes the reader skip records that were printed before a time.
func (r *LogReader) Since(unixNanos int64) { r.since = unixNanos }

// Offset returns the offset of the next record.
func (r *LogReader) Offset() uint64 { return r.lines.offset }

// SeekOffset moves to an offset from an entry.
func (r *LogReader) SeekOffset(ctx context.Context, offset uint64) error {
	return r.lines.seek(ctx, offset)
}

// SeekTail moves to n records before the end.
func (r *LogReader) SeekTail(ctx context.Context, n int) error {
	parts := r.lines.manifest.Log
	r.lines.offset = r.lines.manifest.End(Log)
	for i := len(parts) - 1; i >= 0 && n > 0; i-- {
		data, err := r.lines.fetch(ctx, parts[i])
		if err != nil {
			return err
		}
		// The last byte ends the last record; each line end before it begins one.
		for end := len(data) - 1; n > 0 && end >= 0; n-- {
			end = bytes.LastIndexByte(data[:end], '\n')
			r.lines.offset = parts[i].Offset + uint64(end+1)
		}
	}
	return nil
}

const (
	// maxBatch limits the bytes that one call of Next returns, except for the last line.
	maxBatch = 1 << 20
	// maxMetric is the longest line of metrics that is read whole; keptOfLong is how much of a longer line is kept.
	maxMetric  = 1 << 20
	keptOfLong = 1 << 10
)

// Next returns the next records, at most limit. An empty result without an error means that the archive has no more.
func (r *LogReader) Next(ctx context.Context, limit int) (entries []record.Entry, err error) {
	size := 0
	gap := func(from, to uint64) bool {
		entries = append(entries, record.Removed(from, to))
		return len(entries) < limit
	}
	_, err = r.lines.each(ctx, gap, func(line []byte, _ bool, _ Part) bool {
		entry, ok := record.Parse(line)
		if ok && entry.UnixNanos < r.since {
			return true
		}
		entry.Offset = r.lines.offset
		entries = append(entries, entry)
		size += len(line)
		return len(entries) < limit && size < maxBatch
	})
	return entries, err
}

// Metric is one line of metrics.
type Metric struct {
	// Offset is the position after the line.
	Offset uint64
	// Text is a JSON object, or any other text that the program wrote (see MetricsText).
	Text      string
	UnixNanos int64
}

// MetricsReader reads metrics from the archive. Only one goroutine may use it.
type MetricsReader struct{ lines lines }

// NewMetricsReader returns a reader that begins after an offset.
func NewMetricsReader(store archive.Store, m *Manifest, offset uint64) *MetricsReader {
	return &MetricsReader{lines{store: store, manifest: m, stream: Metrics, offset: offset}}
}

// Next returns the next lines, at most limit. An empty result without an error means that there are no more.
func (r *MetricsReader) Next(ctx context.Context, limit int) (found []Metric, err error) {
	size := 0
	last := int64(0)
	all, err := r.lines.each(ctx, func(_, _ uint64) bool { return true }, func(line []byte, long bool, p Part) bool {
		last = p.UnixNanos
		if line = bytes.TrimSpace(line); len(line) >= maxMetric {
			line, long = line[:keptOfLong], true
		}
		if len(line) > 0 {
			found = append(found, Metric{Offset: r.lines.offset, Text: MetricsText(line, long), UnixNanos: p.UnixNanos})
			size += len(line)
		}
		return len(found) < limit && size < maxBatch
	})
	if m := r.lines.manifest; err == nil && all && m.Final && m.MetricsLimit > 0 && r.lines.offset <= uint64(m.MetricsLimit) {
		r.lines.offset = uint64(m.MetricsLimit) + 1 // returned once, also to a reader that resumes with this offset
		found = append(found, Metric{Offset: r.lines.offset, Text: MetricsLimit(m.MetricsLimit), UnixNanos: last})
	}
	return found, err
}
