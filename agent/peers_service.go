package agent

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/pki"
)

const (
	// relayTimeout bounds how long a relayed renewal waits for the leader's word.
	relayTimeout = 2 * time.Second
	// maxRelays bounds how many wait at a time.
	maxRelays = 4096
)

// peerService answers other agents.
type peerService struct {
	v1.UnimplementedPeerServiceServer
	agent *agent
}

// Ping says whether this agent's session is closed. Such a word may let tasks of
// the caller run on, so it binds this agent: see lease.Keeper.
func (s *peerService) Ping(context.Context, *v1.PingRequest) (*v1.PingResponse, error) {
	return &v1.PingResponse{NodeId: s.agent.cfg.NodeID, SessionClosed: s.agent.leases.answerPing()}, nil
}

// Relay passes a renewal on in this agent's own session.
func (s *peerService) Relay(ctx context.Context, req *v1.RelayRequest) (*v1.RelayResponse, error) {
	renewal := req.GetRenewal()
	if renewal.GetNodeId() == "" || renewal.GetSeq() == 0 {
		return nil, status.Error(codes.InvalidArgument, "a renewal needs a node_id and a seq")
	}
	if who, known := pki.PeerIdentity(ctx); s.agent.serverTLS != nil && (!known || who.ID != renewal.GetNodeId()) {
		return nil, status.Errorf(codes.PermissionDenied, "%s cannot renew the leases of node %s", who, renewal.GetNodeId())
	}
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	if err := s.agent.relays.pass(ctx, renewal); err != nil {
		return nil, err
	}
	return &v1.RelayResponse{Seq: renewal.GetSeq()}, nil
}

// relays are the renewals of other agents on their way through this one.
type relays struct {
	mu      sync.Mutex
	link    *link
	waiting map[relayed]chan struct{}
	passed  atomic.Uint64
}

type relayed struct {
	node string
	seq  uint64
}

// link is the session that renewals go through.
type link struct {
	out  chan *v1.Renewal
	over chan struct{}
}

func newRelays() *relays { return &relays{waiting: make(map[relayed]chan struct{})} }

// open takes up a session; close must be called when it is over.
func (r *relays) open() (renewals <-chan *v1.Renewal, close func()) {
	l := &link{out: make(chan *v1.Renewal), over: make(chan struct{})}
	r.mu.Lock()
	r.link = l
	r.mu.Unlock()
	return l.out, func() {
		r.mu.Lock()
		r.link = nil
		r.mu.Unlock()
		l.end()
	}
}

func (l *link) end() { close(l.over) }

// acked wakes who waits for the leader's word.
func (r *relays) acked(ack *v1.RenewalAck) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := relayed{ack.GetNodeId(), ack.GetSeq()}
	if done, ok := r.waiting[name]; ok {
		delete(r.waiting, name)
		close(done)
		r.passed.Add(1)
	}
}

// pass sends a renewal in the present session and waits until the leader
// acknowledged it.
func (r *relays) pass(ctx context.Context, renewal *v1.Renewal) error {
	name := relayed{renewal.GetNodeId(), renewal.GetSeq()}
	done := make(chan struct{})
	r.mu.Lock()
	l := r.link
	_, twice := r.waiting[name]
	crowded := len(r.waiting) >= maxRelays
	if l != nil && !twice && !crowded {
		r.waiting[name] = done
	}
	r.mu.Unlock()
	switch {
	case l == nil:
		return errNoSession
	case twice:
		return status.Error(codes.AlreadyExists, "this renewal is on its way")
	case crowded:
		return status.Error(codes.ResourceExhausted, "too many renewals wait for an answer")
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.waiting[name] == done {
			delete(r.waiting, name)
		}
	}()
	for out := l.out; ; out = nil {
		select {
		case out <- renewal:
		case <-done:
			return nil
		case <-l.over:
			return errNoSession
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

var errNoSession = status.Error(codes.Unavailable, "not in session with a coordinator")

// rolesOf says who may call what.
var rolesOf = map[string]string{
	v1.TaskService_ServiceDesc.ServiceName: pki.RoleCoordinator,
	v1.PeerService_ServiceDesc.ServiceName: pki.RoleAgent,
}

// admit refuses a call of somebody who has another role than the service is for.
func (a *agent) admit(ctx context.Context, method string) error {
	if a.serverTLS == nil {
		return nil
	}
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	role, served := rolesOf[service]
	if who, known := pki.PeerIdentity(ctx); !served || !known || !who.Is(role) {
		return status.Errorf(codes.PermissionDenied, "%s is not for %s", service, who)
	}
	return nil
}

// gates are put before every call.
func (a *agent) gates() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if err := a.admit(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return handler(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if err := a.admit(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return handler(srv, stream)
		}),
	}
}
