package output

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mindcoordinator/mind/api/cursor"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive/tasks"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// metricsRank is the rank whose metrics represent the job: the first, as in every framework.
const metricsRank = 0

// metrics streams the metrics lines of a job until it has ended and everything was sent.
func (s *Service) metrics(ctx context.Context, job ident.Job, req *v1.StreamJobMetricsRequest, send func(*v1.StreamJobMetricsResponse) error) error {
	at, err := cursor.ParseLog(req.Cursor)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	follow := req.Follow == nil || *req.Follow
	next := at.Attempt
	var lost []*loss
	for {
		attempt, sources, err := s.waitAttempt(ctx, job, next, 0, follow, func() error { return send(&v1.StreamJobMetricsResponse{}) })
		if err != nil {
			return err
		}
		if attempt == 0 {
			return missing(lost)
		}
		if at.Attempt != attempt {
			at = cursor.Log{Attempt: attempt, Offsets: map[uint16]uint64{}}
		}
		if err := send(&v1.StreamJobMetricsResponse{Cursor: at.String()}); err != nil {
			return err
		}
		mode := unfollowed
		if follow {
			mode = followed
		}
		err = s.readMetrics(ctx, job, attempt, sources, at.Offsets[metricsRank], mode, func(entries []*v1.TaskMetricsEntry) error {
			out := &v1.StreamJobMetricsResponse{}
			for _, e := range entries {
				at.Offsets[metricsRank] = e.Offset
				out.Entries = append(out.Entries, &v1.MetricsEntry{Json: e.Json, Cursor: at.String(), Timestamp: call.Time(e.UnixNanos)})
			}
			return send(out)
		})
		if l := (*loss)(nil); errors.As(err, &l) {
			lost = append(lost, l)
		} else if err != nil {
			return err
		}
		if !follow {
			return missing(lost)
		}
		next = attempt + 1
	}
}

// latestMetrics merges the metrics lines of the newest attempt: the newest value of each name.
func (s *Service) latestMetrics(ctx context.Context, job ident.Job) (*structpb.Struct, error) {
	attempt, sources, err := s.waitAttempt(ctx, job, 0, 0, false, func() error { return nil })
	var merged newestMetrics
	if err == nil && attempt > 0 {
		err = s.readMetrics(ctx, job, attempt, sources, 0, once, func(entries []*v1.TaskMetricsEntry) error {
			for _, e := range entries {
				merged.take(e.Json)
			}
			return nil
		})
	}
	if l := (*loss)(nil); errors.As(err, &l) {
		// The newest known values are still useful.
		if len(merged.values) == 0 {
			return nil, missing([]*loss{l})
		}
		err = nil
	}
	if err != nil {
		return nil, err
	}
	out, err := merged.read()
	if err != nil {
		return nil, status.Errorf(codes.Internal, "merging the metrics of job %s: %v", job, err)
	}
	return out, nil
}

// metricsMode says how long metrics are read: until the job ends, until all existing lines were read, or the same
// without patience for a node that does not answer.
type metricsMode int

const (
	followed metricsMode = iota
	unfollowed
	once
)

func (s *Service) readMetrics(ctx context.Context, job ident.Job, attempt uint32, sources []source, from uint64, mode metricsMode, take func([]*v1.TaskMetricsEntry) error) error {
	src := source{rank: metricsRank}
	for _, candidate := range sources {
		if candidate.rank == metricsRank {
			src = candidate
		}
	}
	type metric = *v1.TaskMetricsEntry
	var taken error
	r := &reading[metric]{
		Service: s, job: job, attempt: attempt, src: src, at: from, follow: mode == followed, once: mode == once, what: "metrics", offset: metric.GetOffset,
		take: func(entries []metric) bool {
			taken = take(entries)
			return taken == nil
		},
	}
	r.ask = func(ctx context.Context, agent v1.TaskServiceClient) (func() (answer[metric], error), error) {
		stream, err := agent.ReadTaskMetrics(ctx, &v1.ReadTaskMetricsRequest{JobId: job.String(), Attempt: int32(attempt), Rank: metricsRank, Offset: r.at, Follow: r.follow})
		return func() (answer[metric], error) {
			resp, err := stream.Recv()
			return answer[metric]{entries: resp.GetEntries(), eof: resp.GetEof()}, err
		}, err
	}
	r.look = func(_ context.Context, m *tasks.Manifest) (func() (answer[metric], error), error) {
		kept := tasks.NewMetricsReader(s.archive.store, m, r.at)
		return func() (answer[metric], error) {
			found, err := kept.Next(ctx, archiveBatch)
			a := answer[metric]{eof: len(found) == 0}
			for _, f := range found {
				a.entries = append(a.entries, &v1.TaskMetricsEntry{Offset: f.Offset, Json: f.Text, UnixNanos: f.UnixNanos})
			}
			return a, err
		}, nil
	}
	if err := r.run(ctx); err != nil {
		return err
	}
	return taken
}
