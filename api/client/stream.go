package client

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/status"
)

// NewStream opens a stream at any coordinator that answers, so that streams are spread over all of them. It tries each
// coordinator once until one has a connection; a coordinator that reports that it is not serving is used only if no
// other is left.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx = c.outgoing(ctx, callOf(ctx))
	var (
		tried uint64
		last  error
		spare *target
	)
	for range *c.targets.Load() {
		to := c.pick(&tried, false)
		conn := to.conn()
		serves, err := c.check(ctx, to, conn)
		if err == nil && !serves {
			spare = to
			continue
		}
		if err == nil {
			var s grpc.ClientStream
			if s, err = conn.NewStream(ctx, desc, method, opts...); err == nil {
				return &stream{ClientStream: s, client: c, to: to}, nil
			}
			if grpcstatus.Code(err) == codes.Unavailable {
				to.avoid(illBroken)
				c.forget(to)
			}
		}
		last = err
		if ctx.Err() != nil || grpcstatus.Code(err) != codes.Unavailable {
			return nil, err
		}
	}
	if spare == nil {
		return nil, last
	}
	s, err := spare.conn().NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &stream{ClientStream: s, client: c, to: spare}, nil
}

const (
	// freshFor is how long a coordinator counts as healthy after an answer.
	freshFor = time.Second
	// checkTimeout limits a health check.
	checkTimeout = time.Second
)

// check asks a coordinator for its health if it has not answered recently. An error means that it does not answer.
func (c *Client) check(ctx context.Context, to *target, conn *grpc.ClientConn) (serves bool, err error) {
	if time.Since(time.Unix(0, to.heard.Load())) < freshFor {
		return true, nil
	}
	try, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var trailer metadata.MD
	reply, err := healthpb.NewHealthClient(conn).Check(try, &healthpb.HealthCheckRequest{}, grpc.Trailer(&trailer))
	switch code := grpcstatus.Code(err); {
	case err == nil && reply.GetStatus() != healthpb.HealthCheckResponse_SERVING:
		return false, nil
	case code == codes.Unavailable && one(trailer, status.KeyOutcome) != "":
		return false, nil // the coordinator itself answered this
	case ctx.Err() != nil:
		return false, grpcstatus.FromContextError(ctx.Err()).Err()
	case code == codes.DeadlineExceeded:
		to.fellSilent()
		c.forget(to)
		return false, grpcstatus.Errorf(codes.Unavailable, "coordinator %s does not answer", to.addr)
	case code == codes.Unavailable:
		to.avoid(illBroken)
		c.forget(to)
		return false, err
	}
	// Any other answer also shows that it is alive: its version may lack this service, or the stream will get the same
	// error.
	to.recovered()
	return true, nil
}

// stream records what the end of a stream says about the cluster.
type stream struct {
	grpc.ClientStream
	client *Client
	to     *target
}

func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		return nil
	}
	trailer := s.Trailer()
	if raw := one(trailer, status.KeyLeader); raw != "" {
		s.client.learn(raw, false)
	} else if grpcstatus.Code(err) == codes.Unavailable && one(trailer, status.KeyOutcome) == "" {
		s.to.avoid(illBroken)
		s.client.forget(s.to)
	}
	return err
}
