package coordinator

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/pki"
)

// ListPeers says how this replica sees the others. It asks nobody: it is what one looks at when the others are gone.
func (s *server) ListPeers(context.Context, *v1.ListPeersRequest) (*v1.ListPeersResponse, error) {
	stats := s.raft.Stats()
	out := &v1.ListPeersResponse{Term: stats.Term, AppliedIndex: stats.AppliedIndex, CommitIndex: stats.CommitIndex, AnsweredBy: s.config.ID}
	v, liveness := s.machine.View(), s.liveness()
	for _, p := range s.raft.Peers() {
		peer := &v1.Peer{Id: p.ID, RaftAddr: p.Addr, Voter: p.Voter, Leader: p.Leader, Liveness: liveness(p.ID)}
		for _, initial := range s.config.Peers {
			if initial.ID == p.ID {
				peer.GrpcAddr, peer.HttpAddr = initial.GRPCAddr, initial.HTTPAddr
			}
		}
		if row, ok := v.Coordinator(p.ID); ok {
			peer.GrpcAddr, peer.HttpAddr = row.GRPCAddr, row.HTTPAddr
		}
		out.Peers = append(out.Peers, peer)
	}
	return out, nil
}

// TransferLeadership hands leadership to another voter, and returns when it has taken it.
func (s *server) TransferLeadership(ctx context.Context, req *v1.TransferLeadershipRequest) (*v1.TransferLeadershipResponse, error) {
	if req.GetTo() == s.config.ID {
		return &v1.TransferLeadershipResponse{Leader: s.config.ID}, nil
	}
	if to := req.GetTo(); to != "" {
		voter := false
		for _, p := range s.raft.Peers() {
			voter = voter || (p.ID == to && p.Voter)
		}
		if !voter {
			return nil, notFound("voter", to)
		}
	}
	changed, stop := s.raft.LeaderChanges()
	defer stop()
	if err := s.raft.Transfer(ctx, req.GetTo()); err != nil {
		return nil, fmt.Errorf("handing leadership over: %w", err)
	}
	timer := time.NewTimer(s.config.Timers.LeaderWait)
	defer timer.Stop()
	for {
		if id, _ := s.raft.Leader(); id != "" && id != s.config.ID {
			return &v1.TransferLeadershipResponse{Leader: id}, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, &failure{codes.Unavailable, "leadership was handed over, but nobody is known to have it yet", status.Unknown}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// JoinPeer makes a coordinator a voter, or brings its addresses up to date.
func (s *server) JoinPeer(ctx context.Context, req *v1.JoinPeerRequest) (*v1.JoinPeerResponse, error) {
	if req.GetId() == "" || req.GetRaftAddr() == "" {
		return nil, bad("id", "id and raft_addr are required")
	}
	// Such an address would be taken by the others for their own machine, and cost the quorum.
	if host, _, err := net.SplitHostPort(req.GetRaftAddr()); err != nil || host == "" || net.ParseIP(host).IsUnspecified() {
		return nil, bad("raft_addr", "%q is not an address at which others reach this coordinator: set what it advertises", req.GetRaftAddr())
	}
	if who := callOf(ctx).peer; s.tls && !callOf(ctx).forwarded && who.Is(pki.RoleCoordinator) && who.ID != req.GetId() {
		return nil, &failure{codes.PermissionDenied, fmt.Sprintf("%s may not speak for %q", who, req.GetId()), ""}
	}
	member := false
	for _, p := range s.raft.Peers() {
		member = member || (p.ID == req.GetId() && p.Addr == req.GetRaftAddr() && p.Voter)
	}
	if !member {
		if err := s.raft.AddVoter(ctx, req.GetId(), req.GetRaftAddr()); err != nil {
			return nil, fmt.Errorf("adding voter %s: %w", req.GetId(), err)
		}
		s.log.Info("voter added", "id", req.GetId(), "raft_addr", req.GetRaftAddr())
	}
	row := fsm.Coordinator{ID: req.GetId(), RaftAddr: req.GetRaftAddr(), GRPCAddr: req.GetGrpcAddr(), HTTPAddr: req.GetHttpAddr(), GossipAddr: req.GetGossipAddr()}
	return &v1.JoinPeerResponse{}, s.putCoordinator(ctx, row, callOf(ctx).operatorActor())
}

func (s *server) putCoordinator(ctx context.Context, row fsm.Coordinator, who *fsm.Actor) error {
	if known, ok := s.machine.View().Coordinator(row.ID); ok && *known == row {
		return nil
	}
	result, err := propose[fsm.CoordinatorResult](ctx, s, fsm.PutCoordinator{Coordinator: row, Actor: who})
	if err == nil && result.Refusal != nil {
		err = result.Refusal
	}
	return err
}

// RemovePeer takes a coordinator out of the membership, and then out of the state. A try that was cut off between the two is
// ended by the next one: that there is no such voter is no reason to leave its name.
func (s *server) RemovePeer(ctx context.Context, req *v1.RemovePeerRequest) (*v1.RemovePeerResponse, error) {
	if req.GetId() == s.config.ID {
		return nil, &failure{codes.FailedPrecondition, "this is the leader: hand leadership over first (TransferLeadership)", ""}
	}
	member := false
	for _, p := range s.raft.Peers() {
		member = member || p.ID == req.GetId()
	}
	if member {
		if err := s.raft.RemoveServer(ctx, req.GetId()); err != nil {
			return nil, fmt.Errorf("removing %s: %w", req.GetId(), err)
		}
	}
	result, err := propose[fsm.CoordinatorResult](ctx, s, fsm.DeleteCoordinator{ID: req.GetId(), Actor: callOf(ctx).operatorActor()})
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil && !member:
		return nil, notFound("peer", req.GetId())
	}
	return &v1.RemovePeerResponse{}, nil
}

// ReadIndex is asked by the other replicas. It is answered by the leader or not at all.
func (s *server) ReadIndex(ctx context.Context, _ *v1.ReadIndexRequest) (*v1.ReadIndexResponse, error) {
	index, term, err := s.raft.ReadIndex(ctx)
	if err != nil {
		return nil, err
	}
	return &v1.ReadIndexResponse{Index: index, Term: term}, nil
}

// announcePause is how long a coordinator waits before it tries again to make itself known.
const announcePause = 200 * time.Millisecond

// announce makes this coordinator's addresses known, once per start; one that is no voter yet becomes one by it. It is
// not repeated afterwards, so that a coordinator that was removed on purpose does not come back by itself.
func (s *server) announce(ctx context.Context) {
	self := s.self()
	for try := 0; ; try++ {
		row, ok := s.machine.View().Coordinator(self.ID)
		if ok && *row == self {
			return
		}
		if err := s.announceOnce(ctx, self, try); err == nil {
			return
		} else if try%50 == 49 {
			s.log.Warn("not yet known to the others", "error", err)
		}
		pause(ctx, announcePause)
		if ctx.Err() != nil {
			return
		}
	}
}

func (s *server) announceOnce(ctx context.Context, self fsm.Coordinator, try int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if s.raft.IsLeader() {
		return s.putCoordinator(ctx, self, nil)
	}
	_, addr := s.leader()
	if addr == "" && len(s.config.JoinVia) > 0 {
		addr = s.config.JoinVia[try%len(s.config.JoinVia)]
	}
	if addr == "" {
		return notSent("no leader is known")
	}
	conn, err := s.links.to(addr)
	if err != nil {
		return err
	}
	if s.config.APISecret != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, status.KeySecret, s.config.APISecret)
	}
	_, err = v1.NewOperatorServiceClient(conn).JoinPeer(ctx, &v1.JoinPeerRequest{
		Id: self.ID, RaftAddr: self.RaftAddr, GrpcAddr: self.GRPCAddr, HttpAddr: self.HTTPAddr, GossipAddr: self.GossipAddr,
	})
	return err
}
