package coordinator

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/cursor"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
)

// logMerge is the logs of all ranks of one attempt on their way to one reader.
type logMerge struct {
	*taskStreams
	job    fsm.JobID
	req    *v1.StreamJobLogsRequest
	follow bool
	tail   *int32
	at     cursor.Log
	lost   []*loss
	send   func(*v1.StreamJobLogsResponse) error
}

// logMode says how long to read: see reading.
type logMode struct{ follow, peek bool }

// chunk is what one rank had to say; last ends it.
type chunk struct {
	rank    uint16
	entries []*v1.TaskLogEntry
	// begins is where the tail that was asked for begins.
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
		// A stream that breaks before its first line is gone on with from here.
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

// backlog sends the last lines over all ranks together, and leaves the cursor behind them. What it leaves in tails are the
// ranks of which nothing is known yet. The first answer has a cursor, with entries or without.
func (m *logMerge) backlog(ctx context.Context, sources []source, tails map[uint16]*int32) error {
	var all []chunk
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
				all = append(all, c)
				continue
			}
			// There is nothing to be merged: a long tail need not be held here.
			entries := m.entries([]chunk{c})
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
	entries := m.entries(all)
	if entries = entries[max(0, len(entries)-int(*m.tail)):]; len(entries) > 0 {
		return m.deliver(entries)
	}
	if sent || len(tails) > 0 {
		return nil
	}
	return m.send(&v1.StreamJobLogsResponse{Cursor: m.at.String()})
}

// pump reads all sources at once and hands what has come to take, in one goroutine, until each has said its last.
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

func (m *logMerge) emit(batch []chunk) error { return m.deliver(m.entries(batch)) }

func (m *logMerge) deliver(entries []*v1.LogEntry) error {
	if len(entries) == 0 {
		return nil
	}
	return m.send(&v1.StreamJobLogsResponse{Entries: entries})
}

// entries puts what came together in the order of its time; the order within a rank is never touched. What is missing is
// told where it is missing, by a line of Mind's own, so that it is never skipped in silence.
func (m *logMerge) entries(batch []chunk) []*v1.LogEntry {
	type line struct {
		rank  uint16
		entry *v1.TaskLogEntry
	}
	var lines []line
	for _, c := range batch {
		for _, e := range c.entries {
			lines = append(lines, line{c.rank, e})
		}
		if c.lost != nil {
			lines = append(lines, line{c.rank, &v1.TaskLogEntry{Offset: c.lost.at, UnixNanos: time.Now().UnixNano(), Stderr: true, Line: "ERROR mind: " + c.lost.message}})
		}
	}
	if len(batch) > 1 {
		latest := map[uint16]int64{}
		for i, l := range lines {
			// A clock that was set back must not reorder the lines of one rank.
			latest[l.rank] = max(latest[l.rank], l.entry.UnixNanos)
			lines[i].entry.UnixNanos = latest[l.rank]
		}
		slices.SortStableFunc(lines, func(a, b line) int { return int(min(1, max(-1, a.entry.UnixNanos-b.entry.UnixNanos))) })
	}
	out := make([]*v1.LogEntry, len(lines))
	for i, l := range lines {
		m.at.Offsets[l.rank] = l.entry.Offset
		out[i] = &v1.LogEntry{
			Level:     levelOf(l.entry.Line, l.entry.Stderr),
			Message:   l.entry.Line,
			Timestamp: timestamp(l.entry.UnixNanos),
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
