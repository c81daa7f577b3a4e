package client

import (
	"context"

	"github.com/mindcoordinator/mind/api/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// NewStream opens a stream at some coordinator that is not known to be ill:
// streams are spread over all of them. It tries each coordinator once until
// one has a connection.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx = c.outgoing(ctx, callOf(ctx))
	var tried uint64
	var last error
	for range *c.targets.Load() {
		to := c.pick(&tried, false)
		s, err := to.conn().NewStream(ctx, desc, method, opts...)
		if err == nil {
			return &stream{ClientStream: s, client: c, to: to}, nil
		}
		last = err
		if ctx.Err() != nil || grpcstatus.Code(err) != codes.Unavailable {
			return nil, err
		}
		to.avoid(illBroken)
		c.forget(to)
	}
	return nil, last
}

// stream takes note of what the end of a stream says about the cluster.
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
