package inputs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/mindcoordinator/mind/agent/datacache"
	"github.com/mindcoordinator/mind/agent/datacache/sources"
	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// search looks for the checkpoint that one task resumes from.
type search struct {
	in     *Inputs
	id     taskid.ID
	spec   *v1.TaskSpec
	points []*v1.ResumePoint
	fetch  func(datacache.Request) (*datacache.Data, error)
	log    *slog.Logger
	// lacks has the reasons why checkpoints cannot be fetched, by their name: a node that does not answer is asked only
	// once.
	lacks map[string]error
}

func (in *Inputs) newSearch(id taskid.ID, spec *v1.TaskSpec, fetch func(datacache.Request) (*datacache.Data, error)) *search {
	return &search{
		in: in, id: id, spec: spec, points: preferred(spec.GetResumePoints(), id.Rank), fetch: fetch,
		log: in.log.With("job", id.Job, "attempt", id.Attempt, "rank", id.Rank), lacks: make(map[string]error),
	}
}

// sameOne reports whether two resume points are the same checkpoint. Older coordinators do not send its id.
func sameOne(a, b *v1.ResumePoint) bool { return named(a) == named(b) }

func named(p *v1.ResumePoint) string {
	return p.GetCheckpointId() + " " + p.GetManifestDigest() + " " + p.GetPath()
}

// sameStep reports whether two checkpoints were saved by one attempt at one step: then they have the same state,
// perhaps on several nodes.
func sameStep(a, b *v1.ResumePoint) bool {
	return sameOne(a, b) || a.GetAttempt() > 0 && a.GetAttempt() == b.GetAttempt() && a.GetStep() > 0 && a.GetStep() == b.GetStep()
}

// preferred orders checkpoints: in the given order, but with those of one step together, and among these the one of the
// same rank first.
func preferred(points []*v1.ResumePoint, rank int32) (out []*v1.ResumePoint) {
	taken := make(map[*v1.ResumePoint]bool, len(points))
	take := func(first *v1.ResumePoint, wanted func(*v1.ResumePoint) bool) {
		for _, p := range points {
			if !taken[p] && sameStep(first, p) && wanted(p) {
				taken[p] = true
				out = append(out, p)
			}
		}
	}
	for _, first := range points {
		if !taken[first] {
			take(first, func(p *v1.ResumePoint) bool { return p.GetRank() == rank })
			take(first, func(*v1.ResumePoint) bool { return true })
		}
	}
	return out
}

// first fetches the first checkpoint that the node can get.
func (s *search) first(ctx context.Context) (*resume, error) {
	for i, point := range s.points {
		found, why, err := s.try(ctx, point)
		switch {
		case err != nil:
			return nil, err
		case found != nil:
			s.took(found, point, i)
			return found, nil
		}
		s.passed(point, why)
	}
	s.log.Warn("no checkpoint can be used: starting from the beginning", "checkpoints", len(s.points))
	return &resume{}, nil
}

func (s *search) took(found *resume, point *v1.ResumePoint, passed int) {
	s.log.Info("resuming from a checkpoint", "path", point.GetPath(), "checkpoint", point.GetCheckpointId(), "step", point.GetStep(), "from", found.from, "passed_over", passed)
}

func (s *search) passed(point *v1.ResumePoint, why error) {
	s.log.Warn("cannot resume from a checkpoint", "path", point.GetPath(), "checkpoint", point.GetCheckpointId(), "step", point.GetStep(), "registered_by", point.GetNodeId(), "why", why)
}

// with fetches the checkpoint for a proposal: the one that the same rank has saved at that step, or else the proposed
// one.
func (s *search) with(ctx context.Context, proposed *v1.ResumePoint) (found *resume, why, err error) {
	if proposed == nil {
		return &resume{}, nil, nil
	}
	for _, point := range s.points {
		if point.GetRank() == s.id.Rank && !sameOne(point, proposed) && sameStep(point, proposed) {
			if found, _, err := s.try(ctx, point); found != nil || err != nil {
				return found, nil, err
			}
		}
	}
	return s.try(ctx, proposed)
}

// try finds a checkpoint on the node, or fetches it from the archive, or else from the node that registered it. why is
// set if this node cannot get it; err, if the task has to be tried again.
func (s *search) try(ctx context.Context, point *v1.ResumePoint) (found *resume, why, err error) {
	if why, ok := s.lacks[named(point)]; ok {
		return nil, why, nil
	}
	here := observe.Verify(ctx, point)
	switch {
	case ctx.Err() != nil:
		return nil, nil, errStoppedLooking
	case here == nil:
		return &resume{path: point.GetPath(), from: "this node"}, nil, nil
	}
	data, from, why, err := s.in.elsewhere(ctx, point, s.fetch)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("the checkpoint to resume from: %w", err)
	case data != nil:
		return &resume{name: baseOf(point.GetPath()), found: data, from: from}, nil, nil
	}
	why = errors.Join(here, why)
	s.lacks[named(point)] = why
	return nil, why, nil
}

var errStoppedLooking = errors.New("stopped while its checkpoint was being looked for")

// elsewhere fetches a checkpoint from the archive, or else from the node that registered it. why is set if neither has
// it. err is set if it may be available later: an archive that does not answer is not skipped, because the newest
// checkpoints are there.
func (in *Inputs) elsewhere(ctx context.Context, point *v1.ResumePoint, fetch func(datacache.Request) (*datacache.Data, error)) (data *datacache.Data, from string, why, err error) {
	request := datacache.Request{Path: "mind://" + point.GetCheckpointId(), What: "checkpoint"}
	if in.cfg.Archive != nil && point.GetArchiveKey() != "" {
		request.Checkpoint = &sources.Checkpoint{Key: point.GetArchiveKey(), Digest: point.GetContentDigest()}
		data, fault := fetch(request)
		switch {
		case fault == nil:
			return data, "the archive", nil, nil
		case sources.Missing(fault):
			why = fault
		default:
			err = fault
		}
		request.Checkpoint = nil
	}
	if ctx.Err() == nil && in.onPeer(point) {
		request.Remote = in.cfg.Peers.Checkpoint(point)
		data, fault := fetch(request)
		switch {
		case fault == nil:
			return data, "node " + point.GetNodeId(), nil, nil
		case sources.Missing(fault) || sources.Broken(fault):
			why = errors.Join(why, fault)
		default: // an error of this node, such as a full disk
			err = errors.Join(err, fault)
		}
	}
	if ctx.Err() != nil {
		err = errStoppedLooking
	}
	return nil, "", why, err
}

// isElsewhere reports whether a checkpoint can be fetched from the archive or from another node.
func (in *Inputs) isElsewhere(point *v1.ResumePoint) bool {
	return in.cfg.Archive != nil && point.GetArchiveKey() != "" || in.onPeer(point)
}

// onPeer reports whether another node can be asked for a checkpoint.
func (in *Inputs) onPeer(point *v1.ResumePoint) bool {
	return in.cfg.Peers != nil && point.GetNodeAddr() != "" && point.GetNodeId() != in.node && point.GetManifestDigest() != ""
}
