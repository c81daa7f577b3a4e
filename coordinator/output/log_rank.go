package output

import (
	"context"
	"errors"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive/record"
	"github.com/mindcoordinator/mind/archive/tasks"
)

// archiveBatch is the number of entries that are read from the archive at a time.
const archiveBatch = 1000

// logReading returns a reading of one rank's log.
func (m *logMerge) logReading(src source, from uint64, take func([]*v1.TaskLogEntry) bool) *reading[*v1.TaskLogEntry] {
	r := &reading[*v1.TaskLogEntry]{
		Service: m.Service, job: m.job, attempt: m.at.Attempt, src: src, at: from, take: take, what: "log",
		offset: (*v1.TaskLogEntry).GetOffset,
	}
	r.ask = func(ctx context.Context, agent v1.TaskServiceClient) (func() (answer[*v1.TaskLogEntry], error), error) {
		stream, err := agent.ReadTaskLogs(ctx, &v1.ReadTaskLogsRequest{
			JobId: m.job.String(), Attempt: int32(r.attempt), Rank: int32(src.rank), Offset: r.at, Tail: r.tail, Follow: r.follow, Since: m.req.Since,
		})
		return func() (answer[*v1.TaskLogEntry], error) {
			resp, err := stream.Recv()
			if err != nil {
				return answer[*v1.TaskLogEntry]{}, err
			}
			return answer[*v1.TaskLogEntry]{resp.Entries, resp.Begins, resp.Eof}, nil
		}, err
	}
	r.look = func(ctx context.Context, manifest *tasks.Manifest) (func() (answer[*v1.TaskLogEntry], error), error) {
		log := tasks.NewLogReader(r.archive.store, manifest)
		if m.req.GetSince() != nil {
			log.Since(m.req.GetSince().AsTime().UnixNano())
		}
		var err error
		var begins *uint64
		if r.tail != nil {
			if err = log.SeekTail(ctx, int(*r.tail)); err == nil {
				at := log.Offset()
				begins = &at
			}
		} else {
			err = log.SeekOffset(ctx, r.at)
		}
		return func() (answer[*v1.TaskLogEntry], error) {
			entries, err := log.Next(ctx, archiveBatch)
			a := answer[*v1.TaskLogEntry]{begins: begins, eof: len(entries) == 0}
			for _, e := range entries {
				a.entries = append(a.entries, &v1.TaskLogEntry{Offset: e.Offset, UnixNanos: e.UnixNanos, Stderr: e.Kind != record.Stdout, Line: e.Text})
			}
			return a, err
		}, err
	}
	return r
}

// read sends one rank's log in chunks, with a last chunk when everything was read or reading failed.
func (m *logMerge) read(ctx context.Context, src source, from uint64, tail *int32, mode logMode, to chan<- chunk) {
	put := func(c chunk) bool {
		c.rank = src.rank
		select {
		case to <- c:
			return true
		case <-ctx.Done():
			return false
		}
	}
	r := m.logReading(src, from, func(entries []*v1.TaskLogEntry) bool { return put(chunk{entries: entries}) })
	r.begun = func(at uint64) bool { return put(chunk{begins: &at}) }
	r.follow, r.peek, r.tail = mode.follow, mode.peek, tail
	err := r.run(ctx)
	c := chunk{last: true, err: err}
	if lost := (*loss)(nil); errors.As(err, &lost) {
		c.lost, c.err = lost, nil
	}
	put(c)
}
