package replica

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
)

// Conn makes calls to another component.
type Conn = grpc.ClientConnInterface

// Write serves a write here if this coordinator leads, and forwards it to the leader otherwise. It repeats a call that
// was certainly not sent, while a leader may still appear. A call that was forwarded once is not forwarded again.
func (r *Replica) Write(ctx context.Context, c *call.Call, method string, req any, reply func() proto.Message, handler grpc.UnaryHandler) (any, error) {
	for giveUp := r.waitUntil(ctx); ; {
		resp, err := r.tryWrite(ctx, c, method, req, reply, handler)
		if err == nil || c.Forwarded || !call.MayRepeat(err) || !r.waitLeader(ctx, giveUp) {
			return resp, err
		}
	}
}

func (r *Replica) tryWrite(ctx context.Context, c *call.Call, method string, req any, reply func() proto.Message, handler grpc.UnaryHandler) (any, error) {
	if r.IsLeader() {
		c.Method, c.Request = method, req
		resp, err := handler(ctx, req)
		return r.repeated(c, resp, err, reply)
	}
	if c.Forwarded {
		return nil, call.NotSent("%s does not lead (any more)", r.config.ID)
	}
	id, addr := r.Leader()
	if addr == "" || id == r.config.ID {
		return nil, call.NotSent("no leader is known")
	}
	resp := reply()
	c.HandedOn = true
	return resp, r.Forward(ctx, c, addr, method, req, resp)
}

// answerTime is the part of a caller's time that is left for the answer to reach the caller.
const answerTime = 250 * time.Millisecond

// waitUntil returns until when a call waits for a leader. It ends early enough to answer the caller that the write was
// not sent: a caller whose time runs out without an answer has to treat the outcome as unknown.
func (r *Replica) waitUntil(ctx context.Context) time.Time {
	giveUp := time.Now().Add(r.config.LeaderWait)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-answerTime).Before(giveUp) {
		return deadline.Add(-answerTime)
	}
	return giveUp
}

// waitLeader waits a little, or until another leader is known, and reports whether to try again.
func (r *Replica) waitLeader(ctx context.Context, giveUp time.Time) bool {
	left := time.Until(giveUp)
	if left <= 0 {
		return false
	}
	changed, stop := r.Raft().LeaderChanges()
	defer stop()
	// The leader may have changed before this wait, and the address of a new leader may be known later than the leader.
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

// Forward makes the same call to the leader. It does not wait for a leader that is known to lead no more, which may be
// stopped or cut off and never answer: then the outcome is unknown.
func (r *Replica) Forward(ctx context.Context, c *call.Call, addr, method string, req any, resp proto.Message) error {
	conn, err := r.links.To(addr)
	if err != nil {
		return call.NotSent("leader %s: %v", addr, err)
	}
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.leader.afterEnd(ctx, addr, cancel)()
	md := metadata.Pairs(status.KeyForwarded, "1")
	if c.Operator {
		md.Set(status.KeyOperator, "1")
	}
	if len(c.Member) > 0 {
		md.Set(status.KeyMember, c.Member...)
	}
	for key, value := range map[string]string{
		status.KeySecret: r.config.Secret, status.KeyTenant: c.Tenant, status.KeyUser: c.User,
		status.KeyRequestID: c.RequestID, status.KeyIdempotency: c.Key, status.KeyToken: c.Token,
		status.KeyDriveToken: c.DriveToken, status.KeyAtlasToken: c.AtlasToken,
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
	c.Index.Store(parseIndex(call.First(trailer, status.KeyIndex)))
	if err == nil {
		return nil
	}
	code, outcome := grpcstatus.Code(err), call.First(trailer, status.KeyOutcome)
	switch {
	case outcome != "":
	case code == codes.Unavailable && reached.Addr == nil:
		outcome = status.NotSent // The call never was on a connection.
	case code == codes.Canceled && caller.Err() == nil:
		return &call.Failure{Code: codes.Unavailable, Message: "the leader changed during the write; its outcome is unknown", Outcome: status.Unknown}
	case code == codes.Unavailable, code == codes.DeadlineExceeded, code == codes.Canceled:
		outcome = status.Unknown
	}
	return &call.Failure{Code: code, Message: grpcstatus.Convert(err).Message(), Outcome: outcome}
}

func parseIndex(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
