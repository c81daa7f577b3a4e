package recovery

import (
	"bufio"
	"context"
	"time"

	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/raftnode/recovery"
	"github.com/mindcoordinator/mind/raftnode/verify"
)

// snapshotChunk limits one message of a snapshot, in bytes.
const snapshotChunk = 256 << 10

// SaveSnapshot sends the whole state, with all writes that were acknowledged before the call, unless the call asks for
// stale. The audit log records it before the first byte is sent. (Not with stale: without a leader nothing can be
// recorded.)
func (s *Service) SaveSnapshot(_ *v1.SaveSnapshotRequest, stream v1.OperatorService_SaveSnapshotServer) error {
	ctx := stream.Context()
	c := call.Of(ctx)
	if !c.Stale {
		const name = v1.OperatorService_RecordSnapshot_FullMethodName
		record := func(ctx context.Context, req any) (any, error) {
			return s.RecordSnapshot(ctx, req.(*v1.RecordSnapshotRequest))
		}
		if c.User == "" {
			c.User = c.Peer.String()
		}
		if _, err := s.replica.Write(ctx, c, name, &v1.RecordSnapshotRequest{CoordinatorId: s.replica.ID()}, methods.Of(name).NewReply, record); err != nil {
			return err
		}
	}
	v, err := s.replica.Read(ctx)
	if err != nil {
		return err
	}
	state := s.machine.Snapshot()
	defer state.Release()
	about := recovery.Saved{
		Program: s.program, By: s.replica.ID(), At: time.Now().UTC().Round(time.Second), Stale: c.Stale,
		Index: state.Index(), Term: s.replica.Raft().Stats().Term, Hash: replica.HashText(state.Hash()),
	}
	for _, p := range s.replica.Raft().Peers() {
		about.Members = append(about.Members, verify.Member{ID: p.ID, RaftAddr: p.Addr, Voter: p.Voter})
	}
	s.log.Info("snapshot sent", "to", c.Peer.String(), "index", state.Index(), "asked_at", v.Index(), "stale", c.Stale)
	out := bufio.NewWriterSize(snapshotStream{stream}, snapshotChunk)
	if err := recovery.Save(out, about, state); err != nil {
		return err
	}
	return out.Flush()
}

type snapshotStream struct {
	stream v1.OperatorService_SaveSnapshotServer
}

func (w snapshotStream) Write(b []byte) (int, error) {
	if err := w.stream.Send(&v1.SaveSnapshotResponse{Data: b}); err != nil {
		return 0, err
	}
	return len(b), nil
}

// RecordSnapshot records in the audit log that a coordinator sends the state.
func (s *Service) RecordSnapshot(ctx context.Context, req *v1.RecordSnapshotRequest) (*v1.RecordSnapshotResponse, error) {
	_, err := replica.Propose[clusterverbs.NoteSnapshotResult](ctx, s.replica, clusterverbs.NoteSnapshot{By: req.GetCoordinatorId(), Actor: call.Of(ctx).OperatorActor()})
	return &v1.RecordSnapshotResponse{}, err
}
