package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
)

const (
	// voteTime bounds how long the leader waits for the votes of the others.
	voteTime = time.Second
	// gossipWarmup is how long a replica must have gossiped before it calls a node dead that it never heard of.
	gossipWarmup = 15 * time.Second
	// unknownLiveness is what a vote says of a node that gossip never heard of.
	unknownLiveness = "unknown"
)

// GetVotes says what this replica's own gossip knows of nodes. The leader asks each voter, and the state counts: what a
// replica says for itself must not be said for it by another one.
func (s *server) GetVotes(ctx context.Context, req *v1.GetVotesRequest) (*v1.GetVotesResponse, error) {
	if who := call.Of(ctx).Peer; s.tls && !who.Is(pki.RoleCoordinator) {
		return nil, call.Errorf(codes.PermissionDenied, "coordinators vote among themselves; the certificate says %s", who)
	}
	return &v1.GetVotesResponse{CoordinatorId: s.config.ID, Votes: s.votes(req.GetNodeIds())}, nil
}

func (s *server) votes(nodes []string) []*v1.Vote {
	var members []gossip.Member
	if s.pool != nil {
		members = s.pool.Members()
	}
	return votesOf(members, s.config.ID, nodes, time.Now())
}

// votesOf turns a view of gossip into votes. A node that died or said goodbye is dead (its tasks live on without its agent,
// but only as long as their own deadline). Of a node that it never heard of a replica that is new to gossip, or alone in
// it, knows nothing.
func votesOf(members []gossip.Member, self string, nodes []string, now time.Time) []*v1.Vote {
	known := make(map[string]*gossip.Member, len(members))
	warm, company := false, false
	for i := range members {
		m := &members[i]
		switch {
		case m.Name == self:
			warm = now.Sub(m.Since) > gossipWarmup
		case m.State == gossip.Alive:
			company = true
		}
		if m.Role == pki.RoleAgent {
			known[m.Name] = m
		}
	}
	votes := make([]*v1.Vote, len(nodes))
	for i, id := range nodes {
		vote := &v1.Vote{NodeId: id, Dead: warm && company, Liveness: unknownLiveness}
		if m := known[id]; m != nil {
			vote.Dead = m.State == gossip.Dead || m.State == gossip.Left
			vote.Incarnation, vote.Liveness = m.Incarnation, string(m.State)
		}
		votes[i] = vote
	}
	return votes
}

// ballot is what the voters say of one node.
type ballot struct {
	voters int
	cast   []fsm.Vote
	// against says, voter by voter, why a vote is missing.
	against []string
}

// need is how many votes are a majority.
func (b *ballot) need() int { return b.voters/2 + 1 }

// dead counts the votes that say so.
func (b *ballot) dead() int {
	n := 0
	for _, v := range b.cast {
		if v.Dead {
			n++
		}
	}
	return n
}

// String says how a vote went that was not won.
func (b *ballot) String() string {
	return fmt.Sprintf("%d of %d votes needed, %d: %s", b.need(), b.voters, b.dead(), strings.Join(b.against, "; "))
}

// poll asks all voters about some nodes, at the same time.
func (s *server) poll(ctx context.Context, v *fsm.View, suspects []*suspect) map[string]*ballot {
	ids := make([]string, len(suspects))
	for i, c := range suspects {
		ids[i] = c.node.ID
	}
	voters := v.Voters()
	answers, errs := make([][]*v1.Vote, len(voters)), make([]error, len(voters))
	var asked sync.WaitGroup
	for i, voter := range voters {
		asked.Go(func() { answers[i], errs[i] = s.askVotes(ctx, voter, ids) })
	}
	asked.Wait()
	ballots := make(map[string]*ballot, len(suspects))
	for _, c := range suspects {
		n, b := c.node, &ballot{voters: len(voters)}
		for i, voter := range voters {
			b.count(n, voter, answers[i], errs[i])
		}
		ballots[n.ID] = b
	}
	return ballots
}

// count takes in what one voter said of a node.
func (b *ballot) count(n *fsm.Node, voter string, answer []*v1.Vote, err error) {
	at := slices.IndexFunc(answer, func(v *v1.Vote) bool { return v.GetNodeId() == n.ID })
	switch {
	case err != nil:
		b.against = append(b.against, fmt.Sprintf("%s did not answer (%v)", voter, err))
		return
	case at < 0:
		b.against = append(b.against, voter+" said nothing of it")
		return
	}
	vote := answer[at]
	if vote.GetDead() && vote.GetIncarnation() != 0 && vote.GetIncarnation() < n.Incarnation {
		b.against = append(b.against, voter+" speaks of an earlier start of its agent")
		return
	}
	b.cast = append(b.cast, fsm.Vote{Coordinator: voter, Dead: vote.GetDead(), Incarnation: vote.GetIncarnation()})
	switch {
	case !vote.GetDead() && vote.GetLiveness() == unknownLiveness:
		b.against = append(b.against, voter+" never heard of it")
	case !vote.GetDead():
		b.against = append(b.against, fmt.Sprintf("%s sees it %s", voter, vote.GetLiveness()))
	}
}

func (s *server) askVotes(ctx context.Context, voter string, nodes []string) ([]*v1.Vote, error) {
	if voter == s.config.ID {
		return s.votes(nodes), nil
	}
	addr := s.replica.GRPCAddr(voter)
	if addr == "" {
		return nil, fmt.Errorf("its address is not known")
	}
	conn, err := s.replica.Link(addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, voteTime)
	defer cancel()
	ctx = s.replica.AsReplica(ctx)
	resp, err := v1.NewOperatorServiceClient(conn).GetVotes(ctx, &v1.GetVotesRequest{NodeIds: nodes})
	if err != nil {
		return nil, err
	}
	if resp.GetCoordinatorId() != voter {
		return nil, fmt.Errorf("%s answers at its address", resp.GetCoordinatorId())
	}
	return resp.GetVotes(), nil
}
