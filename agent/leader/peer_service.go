package leader

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/pki"
)

// PeerService answers the pings of other agents, and relays their renewals.
type PeerService struct {
	v1.UnimplementedPeerServiceServer
	node       string
	leases     *Leases
	relays     *Relays
	identified bool
}

// NewPeerService returns the service of a node. identified: callers have certificates.
func NewPeerService(node string, leases *Leases, relays *Relays, identified bool) *PeerService {
	return &PeerService{node: node, leases: leases, relays: relays, identified: identified}
}

// Ping returns whether this agent's session is closed. Because of the answer, the caller's tasks may keep running, so
// it binds this agent: see lease.Keeper.
func (s *PeerService) Ping(context.Context, *v1.PingRequest) (*v1.PingResponse, error) {
	return &v1.PingResponse{NodeId: s.node, SessionClosed: s.leases.answerPing()}, nil
}

// Relay sends another agent's renewal in this agent's own session.
func (s *PeerService) Relay(ctx context.Context, req *v1.RelayRequest) (*v1.RelayResponse, error) {
	renewal := req.GetRenewal()
	if renewal.GetNodeId() == "" || renewal.GetSeq() == 0 {
		return nil, status.Error(codes.InvalidArgument, "a renewal needs a node_id and a seq")
	}
	if who, known := pki.PeerIdentity(ctx); s.identified && (!known || who.ID != renewal.GetNodeId()) {
		return nil, status.Errorf(codes.PermissionDenied, "%s cannot renew the leases of node %s", who, renewal.GetNodeId())
	}
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	if err := s.relays.pass(ctx, renewal); err != nil {
		return nil, err
	}
	return &v1.RelayResponse{Seq: renewal.GetSeq()}, nil
}
