package coordinator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/pki"
)

// writes are the methods that only the leader can serve, with the message that each answers.
var writes = map[string]func() proto.Message{
	v1.JobService_SubmitJob_FullMethodName:               func() proto.Message { return new(v1.SubmitJobResponse) },
	v1.JobService_SubmitJobs_FullMethodName:              func() proto.Message { return new(v1.SubmitJobsResponse) },
	v1.JobService_CancelJob_FullMethodName:               func() proto.Message { return new(v1.CancelJobResponse) },
	v1.JobService_PauseJob_FullMethodName:                func() proto.Message { return new(v1.PauseJobResponse) },
	v1.JobService_ResumeJob_FullMethodName:               func() proto.Message { return new(v1.ResumeJobResponse) },
	v1.JobService_RetryJob_FullMethodName:                func() proto.Message { return new(v1.RetryJobResponse) },
	v1.JobService_DeleteCheckpoint_FullMethodName:        func() proto.Message { return new(v1.DeleteCheckpointResponse) },
	v1.EvaluationService_SubmitEvaluation_FullMethodName: func() proto.Message { return new(v1.SubmitEvaluationResponse) },
	v1.ClusterService_PutQueue_FullMethodName:            func() proto.Message { return new(v1.PutQueueResponse) },
	v1.ClusterService_DeleteQueue_FullMethodName:         func() proto.Message { return new(v1.DeleteQueueResponse) },
	v1.ClusterService_DrainNode_FullMethodName:           func() proto.Message { return new(v1.DrainNodeResponse) },
	v1.ClusterService_EnableNode_FullMethodName:          func() proto.Message { return new(v1.EnableNodeResponse) },
	v1.ClusterService_ForgetNode_FullMethodName:          func() proto.Message { return new(v1.ForgetNodeResponse) },
	v1.TokenService_CreateToken_FullMethodName:           func() proto.Message { return new(v1.CreateTokenResponse) },
	v1.TokenService_RevokeToken_FullMethodName:           func() proto.Message { return new(v1.RevokeTokenResponse) },
	v1.TokenService_VerifyToken_FullMethodName:           func() proto.Message { return new(v1.VerifyTokenResponse) },
	v1.TokenService_CreateStreamTicket_FullMethodName:    func() proto.Message { return new(v1.CreateStreamTicketResponse) },
	v1.TokenService_RedeemStreamTicket_FullMethodName:    func() proto.Message { return new(v1.RedeemStreamTicketResponse) },
	v1.LauncherService_PutLauncher_FullMethodName:        func() proto.Message { return new(v1.PutLauncherResponse) },
	v1.LauncherService_DeleteLauncher_FullMethodName:     func() proto.Message { return new(v1.DeleteLauncherResponse) },
	v1.QuotaService_PutQuota_FullMethodName:              func() proto.Message { return new(v1.PutQuotaResponse) },
	v1.QuotaService_DeleteQuota_FullMethodName:           func() proto.Message { return new(v1.DeleteQuotaResponse) },
	v1.AuditService_RecordDenials_FullMethodName:         func() proto.Message { return new(v1.RecordDenialsResponse) },
	v1.OperatorService_GetNodeActivity_FullMethodName:    func() proto.Message { return new(v1.GetNodeActivityResponse) },
	v1.OperatorService_TransferLeadership_FullMethodName: func() proto.Message { return new(v1.TransferLeadershipResponse) },
	v1.OperatorService_JoinPeer_FullMethodName:           func() proto.Message { return new(v1.JoinPeerResponse) },
	v1.OperatorService_RemovePeer_FullMethodName:         func() proto.Message { return new(v1.RemovePeerResponse) },
	v1.OperatorService_RecordSnapshot_FullMethodName:     func() proto.Message { return new(v1.RecordSnapshotResponse) },
}

// write serves a write here when this coordinator leads, and hands it to the leader when not. What was certainly not
// sent is tried again while a leader may still appear; a call that was handed on once goes no further.
func (s *server) write(ctx context.Context, c *call, method string, req any, reply func() proto.Message, handler grpc.UnaryHandler) (any, error) {
	for giveUp := s.waitUntil(ctx); ; {
		resp, err := s.tryWrite(ctx, c, method, req, reply, handler)
		if err == nil || c.forwarded || !mayRepeat(err) || !s.waitLeader(ctx, giveUp) {
			return resp, err
		}
	}
}

func (s *server) tryWrite(ctx context.Context, c *call, method string, req any, reply func() proto.Message, handler grpc.UnaryHandler) (any, error) {
	if s.raft.IsLeader() {
		return handler(ctx, req)
	}
	if c.forwarded {
		return nil, notSent("%s does not lead (any more)", s.config.ID)
	}
	id, addr := s.leader()
	if addr == "" || id == s.config.ID {
		return nil, notSent("no leader is known")
	}
	resp := reply()
	c.handedOn = true
	return resp, s.forward(ctx, c, addr, method, req, resp)
}

// mayRepeat says whether a write that failed had no effect, and may have one elsewhere. A full backlog is no reason to
// try at once again.
func mayRepeat(err error) bool {
	err = toStatus(err)
	return outcomeOf(err) == status.NotSent && grpcstatus.Code(err) == codes.Unavailable
}

// answerTime is what an answer gets to reach a caller before his time is up.
const answerTime = 250 * time.Millisecond

// waitUntil is how long a call waits for a leader. It ends in time to tell the caller that nothing was done: one whose time runs out
// without an answer has to believe that something may have been.
func (s *server) waitUntil(ctx context.Context) time.Time {
	giveUp := time.Now().Add(s.config.Timers.LeaderWait)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-answerTime).Before(giveUp) {
		return deadline.Add(-answerTime)
	}
	return giveUp
}

// waitLeader waits for another leader to be known, or a little, and says whether to try again.
func (s *server) waitLeader(ctx context.Context, giveUp time.Time) bool {
	left := time.Until(giveUp)
	if left <= 0 {
		return false
	}
	changed, stop := s.raft.LeaderChanges()
	defer stop()
	// The change may have come before this wait, the address of a new leader after the news of it.
	timer := time.NewTimer(min(left, 20*time.Millisecond))
	defer timer.Stop()
	select {
	case <-changed:
		return true
	case <-timer.C:
		return time.Until(giveUp) > 0
	case <-ctx.Done():
		return false
	}
}

// forward makes the same call at the leader. It does not wait for a leader that is known to lead no more (it may be
// stopped, or cut off, and never answer): the outcome is unknown then.
func (s *server) forward(ctx context.Context, c *call, addr, method string, req any, resp proto.Message) error {
	conn, err := s.links.to(addr)
	if err != nil {
		return notSent("leader %s: %v", addr, err)
	}
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.epoch.onEnd(ctx, addr, cancel)()
	md := metadata.Pairs(status.KeyForwarded, "1")
	if c.operator {
		md.Set(status.KeyOperator, "1")
	}
	for key, value := range map[string]string{
		status.KeySecret: s.config.APISecret, status.KeyTenant: c.tenant, status.KeyUser: c.user,
		status.KeyRequestID: c.requestID, status.KeyIdempotency: c.key, status.KeyToken: c.token,
		status.KeyDriveToken: c.driveToken, status.KeyAtlasToken: c.atlasToken,
	} {
		if value != "" {
			md.Set(key, value)
		}
	}
	var (
		trailer metadata.MD
		reached peer.Peer
	)
	err = conn.Invoke(metadata.NewOutgoingContext(ctx, md), method, req, resp, grpc.Trailer(&trailer), grpc.Peer(&reached))
	c.index.Store(parseIndex(one(trailer, status.KeyIndex)))
	if err == nil {
		return nil
	}
	code, outcome := grpcstatus.Code(err), one(trailer, status.KeyOutcome)
	switch {
	case outcome != "":
	case code == codes.Unavailable && reached.Addr == nil:
		outcome = status.NotSent // It never was on a connection.
	case code == codes.Canceled && caller.Err() == nil:
		return &failure{codes.Unavailable, "the leader changed during the write; its outcome is unknown", status.Unknown}
	case code == codes.Unavailable, code == codes.DeadlineExceeded, code == codes.Canceled:
		outcome = status.Unknown
	}
	return &failure{code, grpcstatus.Convert(err).Message(), outcome}
}

// links are connections to others of one kind, kept open, one to each address.
type links struct {
	tls     *pki.Client
	network Network

	mu     sync.Mutex
	conns  map[string]*grpc.ClientConn
	closed bool
}

func (l *links) to(addr string) (*grpc.ClientConn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if conn, ok := l.conns[addr]; ok {
		return conn, nil
	}
	if l.closed {
		return nil, fmt.Errorf("shutting down")
	}
	creds := insecure.NewCredentials()
	if l.tls != nil {
		creds = l.tls.Credentials()
	}
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(l.network.Dial),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: client.KeepaliveTime, Timeout: 2 * time.Second, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", addr, err)
	}
	if l.conns == nil {
		l.conns = map[string]*grpc.ClientConn{}
	}
	l.conns[addr] = conn
	return conn, nil
}

func (l *links) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}
