package inputs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
)

const (
	// unreachable is how long the agent of rank 0 may not answer; askAgain is the pause between two questions to it.
	unreachable = time.Minute
	askAgain    = time.Second
)

// lead finds, for rank 0, the first checkpoint that all tasks can get.
func (s *search) lead(ctx context.Context) (*resume, error) {
	id, agreed := attemptOf(s.id), s.in.agreements
	if point, ok := agreed.decided(id); ok { // by an earlier agent, or an earlier try
		return s.bound(ctx, point)
	}
	agreed.lead(id, s.spec.GetPeers())
	for i, point := range s.points {
		agreed.propose(id, point)
		found, why, err := s.with(ctx, point)
		if err != nil {
			return nil, err
		}
		if found == nil {
			s.passed(point, why)
			continue
		}
		all, err := agreed.others(ctx, id, len(s.spec.GetPeers()))
		switch {
		case err != nil:
			return nil, err
		case all:
			s.took(found, point, i)
			return found, agreed.decide(id)
		}
		s.passed(point, errors.New("another task of the job cannot get it"))
	}
	agreed.propose(id, nil)
	if len(s.points) > 0 {
		s.log.Warn("no checkpoint can be used by all tasks: starting from the beginning", "checkpoints", len(s.points))
	}
	return &resume{}, agreed.decide(id)
}

// bound fetches the checkpoint that was decided on.
func (s *search) bound(ctx context.Context, point *v1.ResumePoint) (*resume, error) {
	found, why, err := s.with(ctx, point)
	if err == nil && found == nil {
		err = fmt.Errorf("the other tasks of the job resume from step %d, which this node cannot get: %w", point.GetStep(), why)
	}
	return found, err
}

// follow fetches each checkpoint that rank 0 proposes, until one is decided on, and tells rank 0 whether this node can
// get it.
func (s *search) follow(ctx context.Context) (*resume, error) {
	answered := time.Now()
	req := &v1.AgreeOnResumeRequest{NodeId: s.in.node, Task: s.id.Ref()}
	var found *resume
	var why error
	for {
		news, err := s.ask(ctx, req)
		switch {
		case ctx.Err() != nil:
			return nil, errStoppedLooking
		case status.Code(err) == codes.Unimplemented:
			s.log.Warn("the agent of rank 0 is of an earlier version: this task takes what its node can get", "node", s.spec.GetPeers()[0].GetNodeId())
			return s.first(ctx)
		case err != nil && time.Since(answered) > unreachable:
			return nil, fmt.Errorf("cannot agree with rank 0, on node %s, on the checkpoint to resume from: %w", s.spec.GetPeers()[0].GetNodeId(), err)
		case err != nil:
			wait.For(ctx, askAgain)
			continue
		}
		answered = time.Now()
		if news.GetProposal() == 0 {
			continue
		}
		if news.GetRound() != req.GetRound() || news.GetProposal() != req.GetProposal() {
			req.Round, req.Proposal, req.Answer = news.GetRound(), news.GetProposal(), v1.ResumeAnswer_UNSPECIFIED
			if found, why, err = s.present(ctx, req, news.GetPoint()); err != nil {
				return nil, err
			}
			req.Answer = v1.ResumeAnswer_HAS_IT
			if found == nil {
				s.passed(news.GetPoint(), why)
				req.Answer = v1.ResumeAnswer_CANNOT_GET_IT
			}
		}
		switch {
		case !news.GetDecided():
		case found == nil:
			return nil, fmt.Errorf("the other tasks of the job resume from step %d, which this node cannot get: %w", news.GetPoint().GetStep(), why)
		default:
			s.took(found, news.GetPoint(), int(news.GetProposal())-1)
			return found, nil
		}
	}
}

// ask asks the agent of rank 0, which may be this one.
func (s *search) ask(ctx context.Context, req *v1.AgreeOnResumeRequest) (*v1.AgreeOnResumeResponse, error) {
	with := s.spec.GetPeers()[0]
	if with.GetNodeId() == s.in.node {
		return s.in.agreements.ask(ctx, req)
	}
	return s.in.cfg.Peers.Agree(ctx, with, req)
}

// present fetches a proposed checkpoint, and meanwhile sends rank 0 signs of life.
func (s *search) present(ctx context.Context, req *v1.AgreeOnResumeRequest, point *v1.ResumePoint) (*resume, error, error) {
	telling, done := context.WithCancel(ctx)
	var teller sync.WaitGroup
	defer teller.Wait()
	defer done()
	here := &v1.AgreeOnResumeRequest{NodeId: req.GetNodeId(), Task: req.GetTask(), Round: req.GetRound(), Proposal: req.GetProposal()}
	teller.Go(func() {
		for telling.Err() == nil {
			_, _ = s.ask(telling, here) // the next sign of life follows soon
			wait.For(telling, presence)
		}
	})
	return s.with(ctx, point)
}
