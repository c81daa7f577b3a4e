package tunnels

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// StreamTaskTunnel serves the client of a tunnel until the client leaves.
func (s *Tunnels) StreamTaskTunnel(stream v1.TaskService_StreamTaskTunnelServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	opening := first.GetOpening()
	if len(opening.GetTunnelId()) < 16 || len(opening.GetTunnelId()) > 128 {
		return status.Error(codes.InvalidArgument, "the id of a tunnel must have 16 to 128 bytes")
	}
	whose := owner{tenant: first.GetTenantId(), user: first.GetUserId(), job: opening.GetJobId()}
	e, err := s.enter(opening, whose)
	if err != nil {
		return err
	}
	defer s.leave(opening.GetTunnelId(), e)
	c, err := e.tunnel.attach(opening)
	if err != nil {
		return err
	}
	ready := &v1.TunnelOutput{Ready: &v1.TunnelReady{NodeId: s.node, Attempt: opening.GetAttempt(), StdinReceived: c.told}}
	if err := stream.Send(&v1.StreamTaskTunnelResponse{Output: ready}); err != nil {
		return err
	}
	left := make(chan error, 1)
	// The stream ends when this function returns, and with it the goroutine.
	go func() { left <- s.receive(stream, c, opening.GetTunnelId()) }()
	for ended := false; ; {
		var wait <-chan struct{}
		if !ended {
			out, changed, err := c.next()
			if err != nil {
				return err
			}
			if wait = changed; out != nil {
				if err := stream.Send(&v1.StreamTaskTunnelResponse{Output: out}); err != nil {
					return err
				}
				ended = out.GetEnd() != nil
				select {
				case err := <-left:
					return err
				default:
					continue
				}
			}
		}
		// After the end, the client hangs up; or it comes again, if it did not get the end.
		select {
		case err := <-left:
			return err
		case <-wait:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-s.tasks.Context().Done():
			return errStopping
		}
	}
}

// receive takes the messages of a client.
func (s *Tunnels) receive(stream v1.TaskService_StreamTaskTunnelServer, c *client, id string) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		in := m.GetInput()
		if in.GetHangUp() {
			s.end(id)
			return nil
		}
		if err := c.take(in); err != nil {
			return err
		}
	}
}
