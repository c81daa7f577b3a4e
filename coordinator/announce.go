package coordinator

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
)

// announcePause is how long a coordinator waits before it tries again to make itself known.
const announcePause = 200 * time.Millisecond

// refusedPause is how long it waits after a refusal: what stands in the way is for an operator to mend.
const refusedPause = 2 * time.Second

// announce makes this coordinator's addresses known, once per start; one that is no member yet becomes a learner by it. It is
// not repeated afterwards, so that a coordinator that was removed on purpose does not come back by itself.
func (s *server) announce(ctx context.Context) {
	self := s.self()
	said := ""
	for try := 0; ctx.Err() == nil; try++ {
		row, ok := s.machine.View().Coordinator(self.ID)
		if ok && *row == self {
			return
		}
		err := s.announceOnce(ctx, self, try)
		if err == nil {
			return
		}
		wait := announcePause
		refused := grpcstatus.Code(err) == codes.FailedPrecondition || grpcstatus.Code(err) == codes.InvalidArgument
		if refused {
			wait = refusedPause
		}
		if text := grpcstatus.Convert(err).Message(); refused && text != said || try%50 == 49 {
			s.log.Warn("not yet known to the others", "error", text)
			said = text
		}
		pause(ctx, wait)
	}
}

func (s *server) announceOnce(ctx context.Context, self fsm.Coordinator, try int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if s.raft.IsLeader() {
		return s.putCoordinator(ctx, self, nil)
	}
	_, addr := s.leader()
	if via := append(s.beginning.joinVia, s.config.JoinVia...); addr == "" && len(via) > 0 {
		addr = via[try%len(via)]
	}
	if addr == "" {
		return notSent("no leader is known")
	}
	conn, err := s.links.to(addr)
	if err != nil {
		return err
	}
	_, err = v1.NewOperatorServiceClient(conn).JoinPeer(s.asReplica(ctx), &v1.JoinPeerRequest{
		Id: self.ID, RaftAddr: self.RaftAddr, GrpcAddr: self.GRPCAddr, HttpAddr: self.HTTPAddr, GossipAddr: self.GossipAddr,
	})
	return err
}
