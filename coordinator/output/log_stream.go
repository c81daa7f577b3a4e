package output

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/cursor"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// logs streams the lines of a job until the job has ended and everything was sent: all attempts in turn, unless one was
// requested.
func (s *Service) logs(ctx context.Context, job ident.Job, req *v1.StreamJobLogsRequest, send func(*v1.StreamJobLogsResponse) error) error {
	at, err := cursor.ParseLog(req.Cursor)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if req.Attempt < 0 || req.GetTail() < 0 || req.GetRank() < 0 {
		return status.Error(codes.InvalidArgument, "attempt, tail and rank must not be negative")
	}
	follow := req.Follow == nil || *req.Follow
	only := uint32(req.Attempt)
	next := max(at.Attempt, only)
	j, ok := s.state.View().Find(job)
	if ok && j.Array != nil {
		return status.Errorf(codes.InvalidArgument, "job %s is an array: its elements have logs, such as %s", job, job.At(j.Array.Start))
	}
	if ok && j.Attempt == 0 && next == 0 {
		// Nothing was printed yet: all future lines are after the tail, and the stream can be resumed from here.
		next, at.Attempt = 1, 1
		if err := send(&v1.StreamJobLogsResponse{Cursor: at.String()}); err != nil {
			return err
		}
	}
	var lost []*loss
	for first := true; ; first = false {
		attempt, sources, err := s.waitAttempt(ctx, job, next, only, follow, func() error { return send(&v1.StreamJobLogsResponse{}) })
		if err != nil {
			return err
		}
		if attempt == 0 {
			return missing(lost)
		}
		from := at
		if at.Attempt != attempt {
			from = cursor.Log{Attempt: attempt, Offsets: map[uint16]uint64{}}
		}
		m := &logMerge{Service: s, job: job, req: req, follow: follow, at: from, send: send}
		// The tail applies only to the output that exists at the beginning; later attempts are shown completely.
		if req.Tail != nil && req.Cursor == "" && first && (next == 0 || only != 0) {
			m.tail = req.Tail
		}
		if err := m.run(ctx, sources); err != nil {
			return err
		}
		lost = append(lost, m.lost...)
		if !follow || only != 0 {
			return missing(lost)
		}
		next = attempt + 1
	}
}

// missing returns the error at the end of a stream that could not send everything.
func missing(lost []*loss) error {
	if len(lost) == 0 {
		return nil
	}
	text := lost[0].message
	if n := len(lost) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return status.Error(codes.NotFound, text)
}
