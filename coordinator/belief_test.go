package coordinator

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/links"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/raftnode"
)

// Renewals that wait for a proof must not be confirmed by one of a later reign of the same coordinator: others may have
// led in between.
func TestVerify_aLaterReignProvesNothing(t *testing.T) {
	addr := freePorts(t, 1)[0]
	machine := fsm.New()
	s := &server{machine: machine, replica: replicaOf(t, machine)}
	node, err := raftnode.Open(raftnode.Config{
		ID: "c1", Dir: filepath.Join(t.TempDir(), "raft"), BindAddr: addr, AdvertiseAddr: addr,
		Bootstrap: []raftnode.Server{{ID: "c1", Addr: addr}}, Pack: fsm.Pack, Logger: slog.New(slog.DiscardHandler),
	}, hosted{s.machine, nil})
	require.NoError(t, err)
	s.replica.Open(node)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), longstop)
		defer cancel()
		require.NoError(t, s.replica.Raft().Shutdown(ctx))
	}()
	var term uint64
	require.Eventually(t, func() bool {
		_, term, err = s.replica.Raft().ReadIndex(t.Context())
		return err == nil
	}, longstop, 10*time.Millisecond)
	require.NoError(t, s.verify(t.Context(), term))
	for _, other := range []uint64{term - 1, term + 1} {
		s.attention.verified = time.Time{}
		require.ErrorIs(t, s.verify(t.Context(), other), errOtherTerm)
		require.Zero(t, s.attention.verified, "it proves no other reign")
	}
}

// voter is a coordinator that says that everybody is dead.
type voter struct {
	v1.UnimplementedOperatorServiceServer
	id string
}

func (v *voter) GetVotes(_ context.Context, req *v1.GetVotesRequest) (*v1.GetVotesResponse, error) {
	reply := &v1.GetVotesResponse{CoordinatorId: v.id}
	for _, id := range req.GetNodeIds() {
		reply.Votes = append(reply.Votes, &v1.Vote{NodeId: id, Dead: true, Liveness: "dead"})
	}
	return reply, nil
}

// Addresses are given anew to others: who answers at one has a vote of its own, and no other's.
func TestPoll_whoAnswersForAnotherIsNotCounted(t *testing.T) {
	serve := func(id string) (addr string) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server := grpc.NewServer()
		v1.RegisterOperatorServiceServer(server, &voter{id: id})
		go func() { _ = server.Serve(l) }()
		t.Cleanup(server.Stop)
		return l.Addr().String()
	}
	machine, others := fsm.New(), links.New(tcp{}.Dial, nil)
	defer others.Close()
	listed := map[string]string{"c2": serve("c2"), "c3": serve("c2")}
	s := &server{
		machine: machine, config: Config{ID: "c1"},
		replica: replica.New(replica.Config{ID: "c1", Listed: listed, Life: t.Context(), Log: slog.New(slog.DiscardHandler)}, machine, others),
	}
	s.machine.StoreConfiguration(1, []string{"c1", "c2", "c3"})
	ballots := s.poll(t.Context(), s.replica.View(), []*suspect{{node: &fsm.Node{ID: "n1"}}})
	ballot := ballots["n1"]
	require.Equal(t, 1, ballot.dead(), ballot)
	require.Less(t, ballot.dead(), ballot.need())
	require.Contains(t, ballot.String(), "c3 did not answer (c2 answers at its address)")
	for _, vote := range ballot.cast {
		require.NotEqual(t, "c3", vote.Coordinator)
	}
}

func TestRelay_renewsOnlyWhatTheStateKnows(t *testing.T) {
	cases := map[string]struct {
		renewal *v1.Renewal
		counts  bool
	}{
		"of a node that is away":              {&v1.Renewal{NodeId: "n1", BootId: "boot1", Seq: 7}, true},
		"after its machine was started again": {&v1.Renewal{NodeId: "n1", BootId: "boot2", Seq: 7}, false},
		"of a node that nobody knows":         {&v1.Renewal{NodeId: "n9", BootId: "boot1", Seq: 7}, false},
		"of the node that passes it on":       {&v1.Renewal{NodeId: "n2", BootId: "boot1", Seq: 7}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			machine := fsm.New()
			s := &server{machine: machine, replica: replicaOf(t, machine)}
			for i, id := range []string{"n1", "n2"} {
				register, err := fsm.Encode(fsm.RegisterNode{Node: fsm.Node{ID: id, BootID: "boot1"}})
				require.NoError(t, err)
				s.machine.Apply(uint64(i+1), fsm.Pack(time.Unix(1, 0), [][]byte{register}))
			}
			s.sessions.open(t.Context(), 1)
			due := s.renewals.begin()
			through, _, err := s.sessions.enter(t.Context(), "n2")
			require.NoError(t, err)
			s.relay(through, tc.renewal)
			_, relayed, ok := s.sessions.lastRenewed(tc.renewal.GetNodeId())
			require.True(t, ok)
			require.Equal(t, tc.counts, relayed)
			require.Equal(t, tc.counts, through.relays.count() == 1)
			require.Equal(t, tc.counts, len(due) == 1)
			require.Empty(t, through.relays.take(), "nothing is acknowledged before the proof")
		})
	}
}
