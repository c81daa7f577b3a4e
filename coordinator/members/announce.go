package members

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/level"
)

// announcePause is the pause before a coordinator tries again to announce itself.
const announcePause = 200 * time.Millisecond

// refusedPause is the pause after a refusal, whose cause an operator has to remove.
const refusedPause = 2 * time.Second

// Announce makes this coordinator's addresses known, once per start. A coordinator that is no member yet becomes a
// learner by it. It is not repeated afterwards, so that a coordinator that was removed on purpose does not come back by
// itself.
func (s *Service) Announce(ctx context.Context) {
	self := s.self
	said := ""
	for try := 0; ctx.Err() == nil; try++ {
		row, ok := s.replica.View().Coordinator(self.ID)
		if ok && *row == self {
			return
		}
		err := s.announceOnce(ctx, self, try)
		if err == nil {
			return
		}
		pause := announcePause
		refused := grpcstatus.Code(err) == codes.FailedPrecondition || grpcstatus.Code(err) == codes.InvalidArgument
		if refused {
			pause = refusedPause
		}
		if text := grpcstatus.Convert(err).Message(); refused && text != said || try%50 == 49 {
			s.log.Warn("not yet known to the others", "error", text)
			said = text
		}
		wait.For(ctx, pause)
	}
}

func (s *Service) announceOnce(ctx context.Context, self coordinators.Coordinator, try int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if s.replica.IsLeader() {
		return s.putCoordinator(ctx, self, nil)
	}
	_, addr := s.replica.Leader()
	if via := s.joinVia(); addr == "" && len(via) > 0 {
		addr = via[try%len(via)]
	}
	if addr == "" {
		return call.NotSent("no leader is known")
	}
	conn, err := s.replica.Link(addr)
	if err != nil {
		return err
	}
	levels := level.Supported()
	_, err = v1.NewOperatorServiceClient(conn).JoinPeer(s.replica.AsReplica(ctx), &v1.JoinPeerRequest{
		Id: self.ID, RaftAddr: self.RaftAddr, GrpcAddr: self.GRPCAddr, HttpAddr: self.HTTPAddr, GossipAddr: self.GossipAddr,
		OldestLevel: uint32(levels.Oldest), NewestLevel: uint32(levels.Newest),
	})
	return err
}
