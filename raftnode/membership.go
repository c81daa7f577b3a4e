package raftnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// membershipTime limits how long a change of membership waits for the one before it.
const membershipTime = 10 * time.Second

// Peer is one server of the membership, as this replica knows it.
type Peer struct {
	ID     string
	Addr   string
	Voter  bool
	Leader bool
	// Heard is the time at which the server last answered this replica in the term in which this replica leads; zero:
	// it has not answered, or this replica does not lead. For the replica itself it is the current time.
	Heard time.Time
	// LastIndex is the end of the server's log at that time.
	LastIndex uint64
}

// Peers returns the newest membership in this replica's log.
func (n *Node) Peers() []Peer {
	leader, _ := n.Leader()
	r, leads := n.ruling()
	var peers []Peer
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		p := Peer{
			ID: string(s.ID), Addr: string(s.Address),
			Voter: s.Suffrage == raft.Voter, Leader: string(s.ID) == leader,
		}
		switch {
		case p.ID == n.cfg.ID:
			p.Heard, p.LastIndex = time.Now(), n.raft.LastIndex()
		case leads:
			last := n.transport.contacts.of(p.ID, r.term)
			p.Heard, p.LastIndex = last.at, last.index
		}
		peers = append(peers, p)
	}
	return peers
}

// AddLearner adds a server that receives the log and has no vote. The server should be running, without state of
// another cluster. Only the leader can do this. The outcomes are those of Propose.
func (n *Node) AddLearner(ctx context.Context, id, addr string) error {
	if id == "" || addr == "" {
		return fmt.Errorf("%w: add learner: id and address are needed", ErrNotSent)
	}
	return n.changeMembership(ctx, "add learner", func() raft.IndexFuture {
		n.pacing.sending()
		return n.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(addr), 0, membershipTime)
	})
}

// AddVoter gives a learner a vote, adds a server with a vote, or changes the address of a server. Only the leader can
// do this. The outcomes are those of Propose.
func (n *Node) AddVoter(ctx context.Context, id, addr string) error {
	if id == "" || addr == "" {
		return fmt.Errorf("%w: add voter: id and address are needed", ErrNotSent)
	}
	return n.changeMembership(ctx, "add voter", func() raft.IndexFuture {
		n.pacing.sending()
		return n.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(addr), 0, membershipTime)
	})
}

// RemoveServer removes a server from the membership. A leader that removes itself stops when the change is committed.
// Any other removed server keeps running without a vote until it is stopped.
func (n *Node) RemoveServer(ctx context.Context, id string) error {
	err := n.changeMembership(ctx, "remove server", func() raft.IndexFuture {
		n.pacing.sending()
		return n.raft.RemoveServer(raft.ServerID(id), 0, membershipTime)
	})
	if err == nil && id == n.cfg.ID {
		n.stop(context.WithoutCancel(ctx), ErrRemoved)
	}
	return err
}

func (n *Node) changeMembership(ctx context.Context, what string, change func() raft.IndexFuture) error {
	if !n.gate.enter() {
		return ErrStopped
	}
	// gate.leave must be called when raft has answered, even if the caller has given up before.
	answer := make(chan error, 1)
	n.running.Go(func() {
		defer n.gate.leave()
		answer <- await(n.background, change())
	})
	select {
	case err := <-answer:
		if err == nil {
			return nil
		}
		return fmt.Errorf("%s: %w", what, n.writeError(err))
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: %w", what, ErrUnknownOutcome, context.Cause(ctx))
	}
}

// TakeSnapshot writes a snapshot and removes the log before it, except for TrailingLogs entries. It is not an error if
// there are no new entries.
func (n *Node) TakeSnapshot(ctx context.Context) error {
	if !n.gate.enter() {
		return ErrStopped
	}
	defer n.gate.leave()
	if err := await(ctx, n.raft.Snapshot()); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return fmt.Errorf("take snapshot: %w", err)
	}
	return nil
}

// Stats summarizes the state of a node.
type Stats struct {
	// State is Follower, Candidate, Leader or Shutdown.
	State        string
	Term         uint64
	LastIndex    uint64
	CommitIndex  uint64
	AppliedIndex uint64
	LeaderID     string
	LeaderAddr   string
	// Backlog is the number of commands that wait to be packed.
	Backlog int
}

// Stats returns the current figures, which are read one after the other. It may be called at any time.
func (n *Node) Stats() Stats {
	id, addr := n.Leader()
	return Stats{
		State:        n.raft.State().String(),
		Term:         n.raft.CurrentTerm(),
		LastIndex:    n.raft.LastIndex(),
		CommitIndex:  n.raft.CommitIndex(),
		AppliedIndex: n.AppliedIndex(),
		LeaderID:     id,
		LeaderAddr:   addr,
		Backlog:      n.proposer.backlog(),
	}
}
