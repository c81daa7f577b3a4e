package coordinator

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/pki"
)

// membership is what this leader knows of the members now.
func (s *server) membership() *membership {
	return &membership{self: s.config.ID, peers: s.replica.Raft().Peers(), now: time.Now()}
}

// JoinPeer makes a coordinator a learner, or brings its addresses up to date. A learner becomes a voter by itself: see promote.
func (s *server) JoinPeer(ctx context.Context, req *v1.JoinPeerRequest) (*v1.JoinPeerResponse, error) {
	if req.GetId() == "" || req.GetRaftAddr() == "" {
		return nil, call.Bad("id", "id and raft_addr are required")
	}
	// Such an address would be taken by the others for their own machine, and cost the quorum.
	if host, _, err := net.SplitHostPort(req.GetRaftAddr()); err != nil || host == "" || net.ParseIP(host).IsUnspecified() {
		return nil, call.Bad("raft_addr", "%q is not an address at which others reach this coordinator: set what it advertises", req.GetRaftAddr())
	}
	if err := s.speaksFor(call.Of(ctx), req.GetId()); err != nil {
		return nil, err
	}
	how, refused := s.membership().mayJoin(req.GetId(), req.GetRaftAddr())
	if refused != "" {
		return nil, call.Errorf(codes.FailedPrecondition, "%s cannot join: %s", req.GetId(), refused)
	}
	var err error
	switch member, _ := s.membership().find(req.GetId()); {
	case how == joinLearner, how == joinMoves && !member.Voter:
		err = s.replica.Raft().AddLearner(ctx, req.GetId(), req.GetRaftAddr())
		s.log.Info("learner added", "id", req.GetId(), "raft_addr", req.GetRaftAddr())
	case how == joinMoves:
		err = s.replica.Raft().AddVoter(ctx, req.GetId(), req.GetRaftAddr())
		s.log.Info("voter has another address", "id", req.GetId(), "raft_addr", req.GetRaftAddr())
	}
	if err != nil {
		return nil, fmt.Errorf("adding %s: %w", req.GetId(), err)
	}
	row := fsm.Coordinator{ID: req.GetId(), RaftAddr: req.GetRaftAddr(), GRPCAddr: req.GetGrpcAddr(), HTTPAddr: req.GetHttpAddr(), GossipAddr: req.GetGossipAddr()}
	if err := s.putCoordinator(ctx, row, call.Of(ctx).OperatorActor()); err != nil {
		return nil, err
	}
	member, _ := s.membership().find(req.GetId())
	return &v1.JoinPeerResponse{Voter: member.Voter}, nil
}

// speaksFor checks that a caller may say where a coordinator is: it is that coordinator, or a member that hands on what that
// one said.
func (s *server) speaksFor(c *call.Call, id string) error {
	if !s.tls || c.Peer.ID == id {
		return nil
	}
	if _, member := s.membership().find(c.Peer.ID); member && c.Forwarded && c.Peer.Is(pki.RoleCoordinator) {
		return nil
	}
	return call.Errorf(codes.PermissionDenied, "%s may not speak for %q", c.Peer, id)
}

func (s *server) putCoordinator(ctx context.Context, row fsm.Coordinator, who *fsm.Actor) error {
	if known, ok := s.replica.View().Coordinator(row.ID); ok && *known == row {
		return nil
	}
	result, err := replica.Propose[fsm.CoordinatorResult](ctx, s.replica, fsm.PutCoordinator{Coordinator: row, Actor: who})
	if err == nil && result.Refusal != nil {
		err = result.Refusal
	}
	return err
}

// RemovePeer takes a coordinator out of the membership, and then out of the state. A try that was cut off between the two is
// ended by the next one: that there is no such voter is no reason to leave its name.
func (s *server) RemovePeer(ctx context.Context, req *v1.RemovePeerRequest) (*v1.RemovePeerResponse, error) {
	if req.GetId() == s.config.ID {
		return nil, call.Errorf(codes.FailedPrecondition, "this is the leader: hand leadership over first (mind raft transfer)")
	}
	m := s.membership()
	_, member := m.find(req.GetId())
	if refused := m.mayRemove(req.GetId()); refused != "" {
		return nil, call.Errorf(codes.FailedPrecondition, "%s cannot be taken out: %s", req.GetId(), refused)
	}
	if member {
		if err := s.replica.Raft().RemoveServer(ctx, req.GetId()); err != nil {
			return nil, fmt.Errorf("removing %s: %w", req.GetId(), err)
		}
	}
	result, err := replica.Propose[fsm.CoordinatorResult](ctx, s.replica, fsm.DeleteCoordinator{ID: req.GetId(), Actor: call.Of(ctx).OperatorActor()})
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil && !member:
		return nil, call.NotFound("peer", req.GetId())
	}
	return &v1.RemovePeerResponse{}, nil
}

// promotePace is how often the leader looks after the learners.
const promotePace = 500 * time.Millisecond

// promote gives learners their votes, and lets go of those that do not get there.
func (s *server) promote(ctx context.Context) {
	ticker := time.NewTicker(promotePace)
	defer ticker.Stop()
	watch := learners{}
	defer s.learnersWait.Clear()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m := s.membership()
		watch.look(m)
		for id := range watch {
			fate, why := watch.fate(m, id)
			switch fate {
			case learnerWaits:
				s.learnersWait.Store(id, why)
			case learnerReady:
				s.giveVote(ctx, m, id)
			case learnerGivenUp:
				s.giveUpLearner(ctx, id, why)
			}
		}
	}
}

func (s *server) giveVote(ctx context.Context, m *membership, id string) {
	p, _ := m.find(id)
	if err := s.replica.Raft().AddVoter(ctx, id, p.Addr); err != nil {
		s.log.Warn("learner was not given a vote", "id", id, "error", err)
		return
	}
	s.learnersWait.Delete(id)
	s.log.Info("learner is a voter now", "id", id, "raft_addr", p.Addr)
}

func (s *server) giveUpLearner(ctx context.Context, id, why string) {
	s.log.Warn("learner is given up; start its coordinator with an empty data_dir to have it join once more", "id", id, "after", giveUpAfter, "why", why)
	if err := s.replica.Raft().RemoveServer(ctx, id); err != nil {
		s.log.Warn("learner was not taken out", "id", id, "error", err)
		return
	}
	s.learnersWait.Delete(id)
	if _, err := replica.Propose[fsm.CoordinatorResult](ctx, s.replica, fsm.DeleteCoordinator{ID: id}); err != nil {
		s.log.Warn("learner's addresses were not forgotten", "id", id, "error", err)
	}
}

// learners is what a leader remembers of the learners, by id.
type learners map[string]*learner

type learner struct {
	since time.Time // first seen by this leader
	close time.Time // up to date ever since; zero: it is not
}

// look takes down who keeps up.
func (l learners) look(m *membership) {
	for id := range l {
		if p, ok := m.find(id); !ok || p.Voter {
			delete(l, id)
		}
	}
	for _, p := range m.peers {
		if p.Voter {
			continue
		}
		known := l[p.ID]
		if known == nil {
			known = &learner{since: m.now}
			l[p.ID] = known
		}
		switch {
		case !m.answers(p) || m.lag(p) > promoteWithin:
			known.close = time.Time{}
		case known.close.IsZero():
			known.close = m.now
		}
	}
}

// fate is what becomes of a learner now.
type fate uint8

const (
	learnerWaits fate = iota
	learnerReady
	learnerGivenUp
)

// fate decides about a learner, and says what it waits for.
func (l learners) fate(m *membership, id string) (fate, string) {
	known := l[id]
	p, _ := m.find(id)
	why := ""
	switch {
	case !m.answers(p):
		why = "it does not answer"
	case known.close.IsZero():
		why = fmt.Sprintf("it lacks %d entries; at most %d are allowed", m.lag(p), promoteWithin)
	case m.now.Sub(known.close) < promoteAfter:
		why = fmt.Sprintf("it has kept up for %s; it takes %s", m.now.Sub(known.close).Round(time.Second), promoteAfter)
	default:
		if why = m.mayPromote(id); why == "" {
			return learnerReady, ""
		}
	}
	if m.now.Sub(known.since) >= giveUpAfter {
		return learnerGivenUp, why
	}
	return learnerWaits, why
}
