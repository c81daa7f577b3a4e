package members

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/raftnode"
)

// The texts for whether a member answers.
const (
	peerAnswers = "answers"
	peerSilent  = "silent"
)

const (
	// askLeaderTime bounds the question to the leader which members answer. Without an answer this replica uses its own
	// data.
	askLeaderTime = time.Second
	// reachTime bounds the try to reach another coordinator.
	reachTime = time.Second
)

// ListPeers lists the members, and says which one leads and which answer. The leader knows best, from Raft's own
// messages. Without a leader this replica asks the others itself, because operators need this list most when members
// are gone.
func (s *Service) ListPeers(ctx context.Context, req *v1.ListPeersRequest) (*v1.ListPeersResponse, error) {
	c := call.Of(ctx)
	if id, addr := s.replica.Leader(); !req.GetLocal() && !c.Forwarded && addr != "" && id != s.replica.ID() {
		within, cancel := context.WithTimeout(ctx, askLeaderTime)
		defer cancel()
		resp := &v1.ListPeersResponse{}
		if err := s.replica.Forward(within, c, addr, v1.OperatorService_ListPeers_FullMethodName, req, resp); err == nil {
			return resp, nil
		}
	}
	stats := s.replica.Raft().Stats()
	out := &v1.ListPeersResponse{
		Term: stats.Term, AppliedIndex: stats.AppliedIndex, CommitIndex: stats.CommitIndex, AnsweredBy: s.replica.ID(), Leader: stats.LeaderID,
	}
	m, liveness := s.membership(), s.liveness()
	leads := s.replica.IsLeader()
	for _, p := range m.peers {
		peer := s.peerView(p)
		peer.Liveness = liveness(p.ID)
		if leads {
			s.contactView(peer, m, p)
		}
		out.Peers = append(out.Peers, peer)
	}
	if !leads && !req.GetLocal() {
		s.reachAll(ctx, out.Peers)
	}
	return out, nil
}

// peerView returns a member with its addresses.
func (s *Service) peerView(p raftnode.Peer) *v1.Peer {
	out := &v1.Peer{Id: p.ID, RaftAddr: p.Addr, Voter: p.Voter, Leader: p.Leader}
	for _, initial := range s.listed {
		if initial.ID == p.ID {
			out.GrpcAddr, out.HttpAddr = initial.GRPCAddr, initial.HTTPAddr
		}
	}
	if row, ok := s.replica.View().Coordinator(p.ID); ok {
		out.GrpcAddr, out.HttpAddr = row.GRPCAddr, row.HTTPAddr
	}
	return out
}

// contactView adds the leader's data about a member from Raft's messages.
func (s *Service) contactView(out *v1.Peer, m *membership, p raftnode.Peer) {
	out.Health, out.LastContactMs = peerAnswers, proto.Int64(-1)
	if !p.Heard.IsZero() {
		out.LastContactMs = proto.Int64(max(0, m.now.Sub(p.Heard).Milliseconds()))
		out.Lag = proto.Uint64(m.lag(p))
	}
	if !m.answers(p) {
		out.Health, out.Reason = peerSilent, "it has not answered since this leader was elected"
		if !p.Heard.IsZero() {
			out.Reason = fmt.Sprintf("it last answered %s ago", m.now.Sub(p.Heard).Round(100*time.Millisecond))
		}
	}
	now := s.term.Load()
	if now == nil || p.Voter {
		return
	}
	if why, ok := now.waits.Load(p.ID); ok {
		out.WaitsFor = why.(string)
	}
}

// reachAll checks which of the other members answer.
func (s *Service) reachAll(ctx context.Context, peers []*v1.Peer) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	var calls sync.WaitGroup
	for _, p := range peers {
		if p.GetId() == s.replica.ID() {
			p.Health = peerAnswers
			continue
		}
		calls.Go(func() {
			p.Health = peerAnswers
			if err := s.reach(ctx, p.GetGrpcAddr()); err != nil {
				p.Health, p.Reason = peerSilent, err.Error()
			}
		})
	}
	calls.Wait()
}

// reach returns an error if another coordinator cannot be reached. Any answer counts.
func (s *Service) reach(ctx context.Context, addr string) error {
	if addr == "" {
		return fmt.Errorf("its address is not known")
	}
	conn, err := s.replica.Link(addr)
	if err != nil {
		return err
	}
	_, err = healthpb.NewHealthClient(conn).Check(s.replica.AsReplica(ctx), &healthpb.HealthCheckRequest{})
	switch code := grpcstatus.Code(err); code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return fmt.Errorf("%s: %s", addr, grpcstatus.Convert(err).Message())
	}
	return nil
}
