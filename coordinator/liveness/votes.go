package liveness

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
)

const (
	// gossipWarmup is how long a replica must have gossiped before it calls an unknown node dead.
	gossipWarmup = 15 * time.Second
	// unknownLiveness is the vote about a node that gossip does not know.
	unknownLiveness = "unknown"
)

// Votes returns a coordinator's votes, from its view of gossip. A node that failed or left is dead (its tasks keep
// running without its agent, but only until their own deadline). A coordinator that has just joined gossip, or is alone
// in it, abstains about unknown nodes.
func Votes(members []gossip.Member, self string, nodes []string, now time.Time) []*v1.Vote {
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

// Ballot holds the voters' answers about one node.
type Ballot struct {
	node   *work.Node
	voters int
	cast   []nodeverbs.Vote
	// against has a text for each voter whose vote is missing.
	against []string
}

// NewBallot returns an empty ballot on a node, for a number of voters.
func NewBallot(node *work.Node, voters int) *Ballot { return &Ballot{node: node, voters: voters} }

// need returns the number of votes of a majority.
func (b *Ballot) need() int { return b.voters/2 + 1 }

// dead counts the votes for dead.
func (b *Ballot) dead() int {
	n := 0
	for _, v := range b.cast {
		if v.Dead {
			n++
		}
	}
	return n
}

// Won reports whether a majority of the voters calls the node dead.
func (b *Ballot) Won() bool { return b.dead() >= b.need() }

// String describes a lost vote.
func (b *Ballot) String() string {
	return fmt.Sprintf("%d of %d votes needed, %d: %s", b.need(), b.voters, b.dead(), strings.Join(b.against, "; "))
}

// Count records a voter's answer. A vote about an earlier start of the node's agent does not count.
func (b *Ballot) Count(voter string, answer []*v1.Vote, err error) {
	at := slices.IndexFunc(answer, func(v *v1.Vote) bool { return v.GetNodeId() == b.node.ID })
	switch {
	case err != nil:
		b.against = append(b.against, fmt.Sprintf("%s did not answer (%v)", voter, err))
		return
	case at < 0:
		b.against = append(b.against, voter+" said nothing of it")
		return
	}
	vote := answer[at]
	if vote.GetDead() && vote.GetIncarnation() != 0 && vote.GetIncarnation() < b.node.Incarnation {
		b.against = append(b.against, voter+" speaks of an earlier start of its agent")
		return
	}
	b.cast = append(b.cast, nodeverbs.Vote{Coordinator: voter, Dead: vote.GetDead(), Incarnation: vote.GetIncarnation()})
	switch {
	case !vote.GetDead() && vote.GetLiveness() == unknownLiveness:
		b.against = append(b.against, voter+" never heard of it")
	case !vote.GetDead():
		b.against = append(b.against, fmt.Sprintf("%s sees it %s", voter, vote.GetLiveness()))
	}
}
