package coordinator

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/fsm"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// reading is one rank's log or metrics on its way from an agent, across its restarts.
type reading struct {
	*taskStreams
	job     fsm.JobID
	attempt uint32
	src     source
	follow  bool
	// open begins to read at the agent, after what was read already, and returns on the first error; nil means that all
	// was read. progress is set when something came.
	open func(ctx context.Context, agent v1.TaskServiceClient, progress *bool) error
}

// run reads until everything was read. It goes on after an agent that went away as long as it may come back.
func (r *reading) run(ctx context.Context) error {
	pause := agentRetry
	var silentSince time.Time
	for {
		var progress bool
		err := r.tryNodes(ctx, &progress)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if progress {
			pause, silentSince = agentRetry, time.Time{}
		}
		j, ok := r.view().Job(r.job)
		over := !ok || j.Terminal() || j.Attempt > r.attempt || (j.State != v1.JobState_QUEUED && !j.Live())
		switch status.Code(err) {
		case codes.NotFound:
			// A task that never got as far as a directory on its node wrote nothing.
			if over || !r.follow {
				return nil
			}
		case codes.InvalidArgument, codes.OutOfRange, codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated:
			return err
		default:
			if silentSince.IsZero() {
				silentSince = time.Now()
			}
			if (over || !r.follow) && time.Since(silentSince) > endedPatience {
				return status.Errorf(codes.Unavailable, "the node that keeps the output of rank %d of job %s does not answer: %v", r.src.rank, r.job, err)
			}
			pause = min(pause*2, agentRetryMax)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// tryNodes reads from the node of the task or, when it is not known any more, from the first node that has it.
func (r *reading) tryNodes(ctx context.Context, progress *bool) error {
	v := r.view()
	if r.src.node != "" {
		n, ok := v.Node(r.src.node)
		if !ok {
			return status.Errorf(codes.NotFound, "node %s is not known any more", r.src.node)
		}
		return r.tryNode(ctx, n, progress)
	}
	last := status.Errorf(codes.NotFound, "no node has attempt %d of job %s", r.attempt, r.job)
	for n := range v.Nodes() {
		err := r.tryNode(ctx, n, progress)
		if err == nil || *progress {
			r.src.node = n.ID
			return err
		}
		if status.Code(err) != codes.NotFound {
			last = err
		}
	}
	return last
}

func (r *reading) tryNode(ctx context.Context, n *fsm.Node, progress *bool) error {
	agent, err := r.agents.tasks(n.GRPCAddr)
	if err != nil {
		return status.Errorf(codes.Unavailable, "reaching the agent of node %s: %v", n.ID, err)
	}
	return r.open(ctx, agent, progress)
}

// read sends one rank's log, in pieces, and a last piece when all was read or it cannot be.
func (m *logMerge) read(ctx context.Context, src source, from uint64, follow bool, tail *int32, to chan<- chunk) {
	put := func(c chunk) bool {
		c.rank = src.rank
		select {
		case to <- c:
			return true
		case <-ctx.Done():
			return false
		}
	}
	r := &reading{taskStreams: m.taskStreams, job: m.job, attempt: m.at.attempt, src: src, follow: follow}
	attempt := int32(m.at.attempt)
	r.open = func(ctx context.Context, agent v1.TaskServiceClient, progress *bool) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := agent.ReadTaskLogs(ctx, &v1.ReadTaskLogsRequest{
			JobId: m.job.String(), Attempt: attempt, Rank: int32(src.rank), Offset: from, Tail: tail, Follow: follow, Since: m.req.Since,
		})
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
				// Once something came, a new try goes on behind it.
				from, tail = resp.Entries[n-1].Offset, nil
				if !put(chunk{entries: resp.Entries}) {
					return ctx.Err()
				}
			}
			if resp.Eof {
				return nil
			}
		}
	}
	err := r.run(ctx)
	put(chunk{last: true, err: err})
}

// levels are the words by which a line may say its own level, as loggers of many languages write them.
var levels = []string{"DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL"}

// levelOf is what the line says of itself near its beginning, else INFO for stdout and ERROR for stderr.
func levelOf(line string, stderr bool) string {
	head := line[:min(len(line), 64)]
	for field := range strings.FieldsFuncSeq(head, func(r rune) bool { return r == ' ' || r == '[' || r == ']' || r == ':' || r == '|' || r == '\t' }) {
		for _, level := range levels {
			if field == level {
				return level
			}
		}
	}
	if stderr {
		return "ERROR"
	}
	return "INFO"
}
