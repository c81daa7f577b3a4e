package coordinator

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/fsm"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// signOfLife is how often a stream with nothing to say sends an empty message.
	signOfLife = 10 * time.Second
	// A task that is not there yet is asked for again after so long; a node that does not answer after up to agentRetryMax.
	agentRetry    = 50 * time.Millisecond
	agentRetryMax = 2 * time.Second
	// endedPatience is how long the node of a job that has ended may be silent before its stream is given up.
	endedPatience = 10 * time.Second
	// mergeBatches bounds what is read ahead of a slow reader.
	mergeBatches = 4
)

// taskDialer reaches the agent at an address. The connection is the dialer's.
type taskDialer interface {
	tasks(addr string) (v1.TaskServiceClient, error)
}

// taskStreams serves what tasks write (logs and metrics), from the agents that keep it, on any replica. It holds nothing
// itself: where a reader stands is in the cursor, which the reader holds.
type taskStreams struct {
	agents taskDialer
	view   func() *fsm.View
	// changed waits for a view newer than the given index.
	changed func(ctx context.Context, after uint64) (*fsm.View, error)
}

// source is the log of one rank.
type source struct {
	rank uint16
	node string
}

// logs streams the lines of a job until it has ended and all was sent; each attempt in turn unless one was asked for.
func (s *taskStreams) logs(ctx context.Context, job fsm.JobID, req *v1.StreamJobLogsRequest, send func(*v1.StreamJobLogsResponse) error) error {
	at, err := parseCursor(req.Cursor)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if req.Attempt < 0 || req.GetTail() < 0 || req.GetRank() < 0 {
		return status.Error(codes.InvalidArgument, "attempt, tail and rank must not be negative")
	}
	follow := req.Follow == nil || *req.Follow
	only := uint32(req.Attempt)
	next := max(at.attempt, only)
	for {
		attempt, sources, err := s.waitAttempt(ctx, job, next, only, follow, func() error { return send(&v1.StreamJobLogsResponse{}) })
		if err != nil || attempt == 0 {
			return err
		}
		from := at
		if at.attempt != attempt {
			from = cursor{attempt: attempt, offsets: map[uint16]uint64{}}
		}
		m := &logMerge{taskStreams: s, job: job, req: req, follow: follow, at: from, send: send}
		// Only what was there at the first look is cut to its tail; a later attempt is shown whole.
		if req.Tail != nil && req.Cursor == "" && (next == 0 || only != 0) {
			m.tail = req.Tail
		}
		if err := m.run(ctx, sources); err != nil {
			return err
		}
		if !follow || only != 0 {
			return nil
		}
		next = attempt + 1
	}
}

// waitAttempt waits until there is an attempt with a number of at least next (0: the newest) and returns it with where its
// logs are; attempt 0 when there will be none any more.
func (s *taskStreams) waitAttempt(ctx context.Context, id fsm.JobID, next, only uint32, follow bool, alive func() error) (uint32, []source, error) {
	beat := time.NewTicker(signOfLife)
	defer beat.Stop()
	for v := s.view(); ; {
		j, ok := v.Job(id)
		if !ok {
			return 0, nil, status.Errorf(codes.NotFound, "job %s is not known any more", id)
		}
		switch {
		case only > j.Attempt && (j.Terminal() || !follow):
			return 0, nil, status.Errorf(codes.NotFound, "job %s has no attempt %d; its newest is %d", id, only, j.Attempt)
		case j.Attempt > 0 && j.Attempt >= next:
			attempt := j.Attempt
			if next > 0 {
				attempt = next
			}
			return attempt, sourcesOf(j, attempt), nil
		case j.Terminal() || !follow:
			return 0, nil, nil
		}
		var err error
		if v, err = s.awaitChange(ctx, v, beat, alive); err != nil {
			return 0, nil, err
		}
	}
}

// awaitChange waits for the next view, showing a sign of life meanwhile. A busy cluster changes thousands of times a
// second; a reader that waits for one job looks a few times a second at most.
func (s *taskStreams) awaitChange(ctx context.Context, v *fsm.View, beat *time.Ticker, alive func() error) (*fsm.View, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(agentRetry):
	}
	for {
		wait, cancel := context.WithTimeout(ctx, signOfLife)
		newer, err := s.changed(wait, v.Index())
		cancel()
		select {
		case <-beat.C:
			if err := alive(); err != nil {
				return nil, err
			}
		default:
		}
		if err == nil {
			return newer, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// sourcesOf says where the logs of an attempt are. Of an attempt so old that the state forgot its nodes, all are asked.
func sourcesOf(j *fsm.Job, attempt uint32) []source {
	var out []source
	if attempt == j.Attempt && len(j.Tasks) > 0 {
		for _, t := range j.Tasks {
			out = append(out, source{rank: t.Rank, node: t.Node})
		}
		return out
	}
	for _, p := range j.Past {
		if p.Attempt == attempt {
			for rank, node := range p.Nodes {
				out = append(out, source{rank: uint16(rank), node: node})
			}
			return out
		}
	}
	for rank := range max(1, j.Shape.Nodes) {
		out = append(out, source{rank: rank})
	}
	return out
}

// logMerge is the logs of all ranks of one attempt on their way to one reader.
type logMerge struct {
	*taskStreams
	job    fsm.JobID
	req    *v1.StreamJobLogsRequest
	follow bool
	tail   *int32
	at     cursor
	send   func(*v1.StreamJobLogsResponse) error
}

// chunk is what one rank had to say; last ends it.
type chunk struct {
	rank    uint16
	entries []*v1.TaskLogEntry
	last    bool
	err     error
}

func (m *logMerge) run(ctx context.Context, sources []source) error {
	if m.req.Rank != nil {
		sources = slices.DeleteFunc(sources, func(s source) bool { return int32(s.rank) != *m.req.Rank })
		if len(sources) == 0 {
			return status.Errorf(codes.NotFound, "job %s has no rank %d", m.job, *m.req.Rank)
		}
	}
	if m.tail != nil && *m.tail > 0 && len(sources) > 1 {
		if err := m.backlog(ctx, sources); err != nil {
			return err
		}
	}
	return m.pump(ctx, sources, m.follow, m.tail, m.emit)
}

// backlog sends the last lines over all ranks together, and leaves the cursor behind them.
func (m *logMerge) backlog(ctx context.Context, sources []source) error {
	var all []chunk
	if err := m.pump(ctx, sources, false, m.tail, func(c []chunk) error {
		all = append(all, c...)
		return nil
	}); err != nil {
		return err
	}
	entries := m.entries(all)
	m.tail = nil
	return m.deliver(entries[max(0, len(entries)-int(*m.req.Tail)):])
}

// pump reads all sources at once and hands what has come to take, in one goroutine, until each has said its last.
func (m *logMerge) pump(ctx context.Context, sources []source, follow bool, tail *int32, take func([]chunk) error) error {
	ctx, cancel := context.WithCancel(ctx)
	chunks := make(chan chunk, mergeBatches)
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()
	for _, src := range sources {
		from := m.at.offsets[src.rank]
		readers.Go(func() { m.read(ctx, src, from, follow, tail, chunks) })
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

// entries puts what came together in the order of its time; the order within a rank is never touched.
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
		m.at.offsets[l.rank] = l.entry.Offset
		out[i] = &v1.LogEntry{
			Level:     levelOf(l.entry.Line, l.entry.Stderr),
			Message:   l.entry.Line,
			Timestamp: timestamp(l.entry.UnixNanos),
			Rank:      int32(l.rank),
			Stream:    "stdout",
			Attempt:   int32(m.at.attempt),
			Cursor:    m.at.String(),
		}
		if l.entry.Stderr {
			out[i].Stream = "stderr"
		}
	}
	return out
}
