package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/cursor"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
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

// taskStreams serves what tasks write (logs and metrics), from the agents that keep it or from the archive, on any replica.
// It holds nothing itself: where a reader stands is in the cursor, which the reader holds.
type taskStreams struct {
	agents taskDialer
	// archive has what agents shipped.
	archive archived
	view    func() *fsm.View
	log     *slog.Logger
	// changed waits for a view newer than the given index.
	changed func(ctx context.Context, after uint64) (*fsm.View, error)
}

// source is the log of one rank.
type source struct {
	rank uint16
	node string
	// started: it may have written something. Of a task that never began nothing is missing.
	started bool
}

// logs streams the lines of a job until it has ended and all was sent; each attempt in turn unless one was asked for.
func (s *taskStreams) logs(ctx context.Context, job fsm.JobID, req *v1.StreamJobLogsRequest, send func(*v1.StreamJobLogsResponse) error) error {
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
	if j, ok := s.view().Job(job); ok && j.Attempt == 0 && next == 0 {
		// Nothing was printed yet: whatever comes is after the tail, and the stream can be gone on with from here.
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
		m := &logMerge{taskStreams: s, job: job, req: req, follow: follow, at: from, send: send}
		// Only what was there at the first look is cut to its tail; a later attempt is shown whole.
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

// missing is how a stream ends that could not bring everything.
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
			out = append(out, source{rank: t.Rank, node: t.Node, started: t.StartedAt != 0})
		}
		return out
	}
	for _, p := range j.Past {
		if p.Attempt == attempt {
			for rank, node := range p.Nodes {
				out = append(out, source{rank: uint16(rank), node: node, started: p.StartedAt != 0 || p.ExitCode != nil})
			}
			return out
		}
	}
	for rank := range max(1, j.Shape.Nodes) {
		out = append(out, source{rank: rank, started: true})
	}
	return out
}
