package tunnels

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/agent/runner"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// reach makes the end of a tunnel in the task of a directory.
func (s *Tunnels) reach(dir string, opening *v1.TunnelOpening) (farEnd, error) {
	if opening.GetShell() == nil {
		return s.connect(dir, opening.GetPort())
	}
	far, err := startShell(dir, opening.GetShell())
	if errors.Is(err, runner.ErrShell) {
		return nil, status.Error(codes.FailedPrecondition, strings.TrimPrefix(err.Error(), runner.ErrShell.Error()+": "))
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "start a shell on node %s: %v", s.node, err)
	}
	return far, nil
}
