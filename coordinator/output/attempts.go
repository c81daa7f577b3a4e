package output

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// source is the log of one rank.
type source struct {
	rank uint16
	node string
	// started: the task may have written something. Nothing is missing of a task that never began.
	started bool
}

// waitAttempt waits for an attempt with a number of at least next (0: the newest), and returns it with the locations of
// its logs. It returns attempt 0 if there will be none.
func (s *Service) waitAttempt(ctx context.Context, id ident.Job, next, only uint32, follow bool, alive func() error) (uint32, []source, error) {
	beat := time.NewTicker(signOfLife)
	defer beat.Stop()
	for v := s.state.View(); ; {
		j, ok := v.Find(id)
		if !ok {
			return 0, nil, status.Errorf(codes.NotFound, "job %s is no longer known", id)
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

// awaitChange waits for the next view, and sends signs of life meanwhile. A busy cluster changes thousands of times a
// second; a reader that waits for one job checks at most a few times a second.
func (s *Service) awaitChange(ctx context.Context, v *fsm.View, beat *time.Ticker, alive func() error) (*fsm.View, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(agentRetry):
	}
	for {
		wait, cancel := context.WithTimeout(ctx, signOfLife)
		newer, err := s.state.Newer(wait, v.Index())
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

// sourcesOf returns the locations of an attempt's logs. If the state no longer has the nodes of an old attempt, all
// nodes are asked.
func sourcesOf(j *work.Job, attempt uint32) []source {
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
