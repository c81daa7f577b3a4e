package coordinator

import (
	"context"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/session"
	"github.com/mindcoordinator/mind/coordinator/term"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
)

// lead runs everything that only the leader does. raftnode calls it once per term, after everything that earlier leaders
// committed is applied here, and waits for it to return.
func (s *server) lead(ctx context.Context, number uint64) {
	s.replica.RefreshLeader()
	s.upgrade.First(ctx)
	s.replica.Begin()
	t := term.New(term.Config{
		State: s.replica, Raft: s.replica.Raft(), Voters: s.votes, Figures: s.metrics, Applied: s.metrics.Term(s.replica.View()).Applied,
		Heartbeat: s.config.Timers.AgentHeartbeat, UnreachableAfter: s.config.Timers.UnreachableAfter, Placements: s.config.Limits.Placements,
		Duties: []func(context.Context){s.access.Lead, s.members.Lead, s.upgrade.Lead, s.schedules.Lead, s.interpreter.Lead, s.notices.Lead, s.flows.Lead}, Log: s.log,
	}, number)
	s.term.Store(t)
	t.Run(ctx)
	s.term.Store(nil)
	s.replica.RefreshLeader()
}

// currentSessions returns the sessions of the term in which this coordinator leads; nil: it does not lead.
func (s *server) currentSessions() *session.Table {
	if t := s.term.Load(); t != nil {
		return t.Sessions()
	}
	return nil
}

// leads reports whether this coordinator leads.
func (s *server) leads() bool { return s.term.Load() != nil }

// applied is called on the applying goroutine after each entry. It wakes the waiters whose view changed.
func (s *server) applied(v *fsm.View, events []event.Event) {
	if !s.replica.Opened() {
		return
	}
	s.replica.Changed()
	for i := range events {
		switch e := &events[i]; e.Topic {
		case event.TopicNode:
			s.capacity.Changed(e.Nodes)
		case event.TopicState:
			s.capacity.Replaced()
		case event.TopicCoordinator:
			s.replica.RefreshLeader()
		}
	}
	if t := s.term.Load(); t != nil {
		t.Applied(v, events)
	}
}

// Session implements v1.AgentServiceServer.
func (s *server) Session(stream v1.AgentService_SessionServer) error {
	return s.sessions.Session(stream)
}

// GetNodeActivity implements v1.OperatorServiceServer.
func (s *server) GetNodeActivity(ctx context.Context, req *v1.GetNodeActivityRequest) (*v1.GetNodeActivityResponse, error) {
	return s.sessions.GetNodeActivity(ctx, req)
}

// GetVotes implements v1.OperatorServiceServer.
func (s *server) GetVotes(ctx context.Context, req *v1.GetVotesRequest) (*v1.GetVotesResponse, error) {
	return s.votes.GetVotes(ctx, req)
}
