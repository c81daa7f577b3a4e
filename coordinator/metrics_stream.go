package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mindcoordinator/mind/fsm"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// metricsRank is the rank whose metrics stand for the job: the first, as every framework has it.
const metricsRank = 0

// metrics streams the metrics lines of a job until it has ended and all was sent.
func (s *taskStreams) metrics(ctx context.Context, job fsm.JobID, req *v1.StreamJobMetricsRequest, send func(*v1.StreamJobMetricsResponse) error) error {
	at, err := parseCursor(req.Cursor)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	follow := req.Follow == nil || *req.Follow
	next := at.attempt
	for {
		attempt, sources, err := s.waitAttempt(ctx, job, next, 0, follow, func() error { return send(&v1.StreamJobMetricsResponse{}) })
		if err != nil || attempt == 0 {
			return err
		}
		if at.attempt != attempt {
			at = cursor{attempt: attempt, offsets: map[uint16]uint64{}}
		}
		err = s.readMetrics(ctx, job, attempt, sources, at.offsets[metricsRank], follow, func(entries []*v1.TaskMetricsEntry) error {
			out := &v1.StreamJobMetricsResponse{}
			for _, e := range entries {
				at.offsets[metricsRank] = e.Offset
				out.Entries = append(out.Entries, &v1.MetricsEntry{Json: e.Json, Cursor: at.String(), Timestamp: timestamp(e.UnixNanos)})
			}
			return send(out)
		})
		if err != nil {
			return err
		}
		if !follow {
			return nil
		}
		next = attempt + 1
	}
}

// latestMetrics merges the metrics lines of the newest attempt: the newest value of each name.
func (s *taskStreams) latestMetrics(ctx context.Context, job fsm.JobID) (*structpb.Struct, error) {
	attempt, sources, err := s.waitAttempt(ctx, job, 0, 0, false, func() error { return nil })
	merged := map[string]any{}
	if err == nil && attempt > 0 {
		err = s.readMetrics(ctx, job, attempt, sources, 0, false, func(entries []*v1.TaskMetricsEntry) error {
			for _, e := range entries {
				// A line that is no JSON object was never a metric; the agent lets none through.
				_ = json.Unmarshal([]byte(e.Json), &merged)
			}
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	out, err := structpb.NewStruct(merged)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "merging the metrics of job %s: %v", job, err)
	}
	return out, nil
}

func (s *taskStreams) readMetrics(ctx context.Context, job fsm.JobID, attempt uint32, sources []source, from uint64, follow bool, take func([]*v1.TaskMetricsEntry) error) error {
	src := source{rank: metricsRank}
	for _, candidate := range sources {
		if candidate.rank == metricsRank {
			src = candidate
		}
	}
	var taken error
	r := &reading{taskStreams: s, job: job, attempt: attempt, src: src, follow: follow}
	r.open = func(ctx context.Context, agent v1.TaskServiceClient, progress *bool) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := agent.ReadTaskMetrics(ctx, &v1.ReadTaskMetricsRequest{JobId: job.String(), Attempt: int32(attempt), Rank: metricsRank, Offset: from, Follow: follow})
		if err != nil {
			return err
		}
		for {
			resp, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF):
				return status.Error(codes.Unavailable, "the agent closed the stream")
			case err != nil:
				return err
			}
			*progress = true
			if n := len(resp.Entries); n > 0 {
				from = resp.Entries[n-1].Offset
				if taken = take(resp.Entries); taken != nil {
					return nil
				}
			}
			if resp.Eof {
				return nil
			}
		}
	}
	if err := r.run(ctx); err != nil {
		return err
	}
	return taken
}

// metricsStruct reads a JSON object as it was reported; nil when it is none.
func metricsStruct(text string) *structpb.Struct {
	if text == "" {
		return nil
	}
	fields := map[string]any{}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&fields); err != nil {
		return nil
	}
	out, err := structpb.NewStruct(fields)
	if err != nil {
		return nil
	}
	return out
}
