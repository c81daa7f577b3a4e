package output

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/cursor"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// logMerge merges the logs of all ranks of one attempt for one reader.
type logMerge struct {
	*Service
	job    ident.Job
	req    *v1.StreamJobLogsRequest
	follow bool
	tail   *int32
	at     cursor.Log
	lost   []*loss
	send   func(*v1.StreamJobLogsResponse) error
}

// logMode says how long to read; see reading.
type logMode struct{ follow, peek bool }

// chunk is a piece of one rank's log; last ends it.
type chunk struct {
	rank    uint16
	entries []*v1.TaskLogEntry
	// begins is where the requested tail begins.
	begins *uint64
	last   bool
	lost   *loss
	err    error
}

func (m *logMerge) run(ctx context.Context, sources []source) error {
	if m.req.Rank != nil {
		sources = slices.DeleteFunc(sources, func(s source) bool { return int32(s.rank) != *m.req.Rank })
		if len(sources) == 0 {
			return status.Errorf(codes.NotFound, "job %s has no rank %d", m.job, *m.req.Rank)
		}
	}
	tails := map[uint16]*int32{}
	if m.tail == nil {
		// A stream that breaks before its first line resumes here.
		if err := m.send(&v1.StreamJobLogsResponse{Cursor: m.at.String()}); err != nil {
			return err
		}
	} else {
		for _, s := range sources {
			tails[s.rank] = m.tail
		}
		if err := m.backlog(ctx, sources, tails); err != nil || !m.follow {
			return err
		}
	}
	return m.pump(ctx, sources, tails, logMode{follow: m.follow}, m.emit)
}

// backlog sends the last lines of all ranks together, and sets the cursor after them. It leaves in tails the ranks that
// have not answered yet. The first answer has a cursor, with or without entries.
func (m *logMerge) backlog(ctx context.Context, sources []source, tails map[uint16]*int32) error {
	kept := newest{most: int(*m.tail)}
	sent := false
	err := m.pump(ctx, sources, tails, logMode{peek: m.follow}, func(batch []chunk) error {
		for _, c := range batch {
			if c.begins != nil {
				m.at.Offsets[c.rank] = *c.begins
			}
			if c.begins != nil || len(c.entries) > 0 {
				delete(tails, c.rank)
			}
			if len(sources) > 1 {
				kept.take(m.lines([]chunk{c}), m.at.Offsets)
				continue
			}
			// One rank needs no merge, so a long tail need not be held here.
			entries := m.show(m.lines([]chunk{c}))
			sent = sent || len(entries) > 0
			if err := m.deliver(entries); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	kept.cut(m.at.Offsets)
	for lines := range kept.messages() {
		sent = true
		if err := m.deliver(m.show(lines)); err != nil {
			return err
		}
	}
	if sent || len(tails) > 0 {
		return nil
	}
	return m.send(&v1.StreamJobLogsResponse{Cursor: m.at.String()})
}

// pump reads all sources at the same time and passes their chunks to take, in one goroutine, until all have ended.
func (m *logMerge) pump(ctx context.Context, sources []source, tails map[uint16]*int32, mode logMode, take func([]chunk) error) error {
	ctx, cancel := context.WithCancel(ctx)
	chunks := make(chan chunk, mergeBatches)
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()
	for _, src := range sources {
		from, tail := m.at.Offsets[src.rank], tails[src.rank]
		readers.Go(func() { m.read(ctx, src, from, tail, mode, chunks) })
	}
	beat := time.NewTicker(signOfLife)
	defer beat.Stop()
	for open := len(sources); open > 0; {
		var batch []chunk
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-beat.C:
			if err := m.send(&v1.StreamJobLogsResponse{}); err != nil {
				return err
			}
			continue
		case c := <-chunks:
			batch = append(batch, c)
		}
		for more := true; more && len(batch) < mergeBatches; {
			select {
			case c := <-chunks:
				batch = append(batch, c)
			default:
				more = false
			}
		}
		for _, c := range batch {
			if c.lost != nil {
				m.lost = append(m.lost, c.lost)
			}
		}
		if err := take(batch); err != nil {
			return err
		}
		for _, c := range batch {
			if c.err != nil {
				return c.err
			}
			if c.last {
				open--
			}
		}
	}
	return nil
}

func (m *logMerge) emit(batch []chunk) error {
	lines := m.lines(batch)
	if len(batch) > 1 {
		inOrder(lines, 0, map[uint16]int64{})
	}
	return m.deliver(m.show(lines))
}

func (m *logMerge) deliver(entries []*v1.LogEntry) error {
	if len(entries) == 0 {
		return nil
	}
	return m.send(&v1.StreamJobLogsResponse{Entries: entries})
}

// logLine is a line of one rank.
type logLine struct {
	rank  uint16
	entry *v1.TaskLogEntry
}

// lines splits chunks into lines. Missing output is reported where it is missing, by a line of Mind's own, so that it is
// never skipped silently.
func (m *logMerge) lines(batch []chunk) []logLine {
	var lines []logLine
	for _, c := range batch {
		for _, e := range c.entries {
			lines = append(lines, logLine{c.rank, e})
		}
		if c.lost != nil {
			lines = append(lines, logLine{c.rank, &v1.TaskLogEntry{Offset: c.lost.at, UnixNanos: time.Now().UnixNano(), Stderr: true, Line: "ERROR mind: " + c.lost.message}})
		}
	}
	return lines
}

// inOrder sorts lines that arrived together by time, without changing the order within a rank. latest has the time of
// each rank's newest line before lines[from].
func inOrder(lines []logLine, from int, latest map[uint16]int64) {
	dateRemarks(lines[from:])
	for _, l := range lines[from:] {
		// A clock that was set back must not reorder the lines of one rank.
		latest[l.rank] = max(latest[l.rank], l.entry.UnixNanos)
		l.entry.UnixNanos = latest[l.rank]
	}
	slices.SortStableFunc(lines, func(a, b logLine) int { return cmp.Compare(a.entry.UnixNanos, b.entry.UnixNanos) })
}

// dateRemarks gives the remarks about a removed part of a log, which have no time, that of the next line of their rank.
func dateRemarks(lines []logLine) {
	next := map[uint16]int64{}
	for _, l := range slices.Backward(lines) {
		if l.entry.UnixNanos == 0 {
			l.entry.UnixNanos = next[l.rank]
		}
		if l.entry.UnixNanos == 0 {
			l.entry.UnixNanos = time.Now().UnixNano()
		}
		next[l.rank] = l.entry.UnixNanos
	}
}

// show turns lines into the entries that readers get, each with its cursor.
func (m *logMerge) show(lines []logLine) []*v1.LogEntry {
	out := make([]*v1.LogEntry, len(lines))
	for i, l := range lines {
		m.at.Offsets[l.rank] = l.entry.Offset
		out[i] = &v1.LogEntry{
			Level:     levelOf(l.entry.Line, l.entry.Stderr),
			Message:   l.entry.Line,
			Timestamp: call.Time(l.entry.UnixNanos),
			Rank:      int32(l.rank),
			Stream:    "stdout",
			Attempt:   int32(m.at.Attempt),
			Cursor:    m.at.String(),
		}
		if l.entry.Stderr {
			out[i].Stream = "stderr"
		}
	}
	return out
}
