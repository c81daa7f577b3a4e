package raftnode

import (
	"context"
	"sync"

	"github.com/hashicorp/raft"
)

// readAt is an index at which a read is linearizable, and the term in which that was established.
type readAt struct{ index, term uint64 }

// ReadIndex returns an index such that the state of a replica that has applied it has every write that was answered
// before the call, and the term in which that was established. Only the leader knows it. Other replicas return a
// NotLeaderError.
func (n *Node) ReadIndex(ctx context.Context) (index, term uint64, err error) {
	if n.leading.Load() == nil {
		if n.stopped() {
			return 0, 0, ErrStopped
		}
		return 0, 0, n.notLeader()
	}
	next, ok := n.reads.Join(func() bool {
		if !n.gate.enter() {
			return false
		}
		n.running.Go(func() {
			defer n.gate.leave()
			n.reads.Run(n.verify)
		})
		return true
	})
	if !ok {
		return 0, 0, ErrStopped
	}
	at, err := next.Wait(ctx)
	return at.index, at.term, err
}

// verify reads the commit index first, and then confirms leadership. In the other order a new leader could commit
// entries in between.
func (n *Node) verify() (readAt, error) {
	r := n.leading.Load()
	if r == nil {
		return readAt{}, n.notLeader()
	}
	select {
	case <-r.ready:
	case <-r.ctx.Done():
		return readAt{}, n.notLeader()
	}
	mark := n.transport.acks.mark()
	index := n.raft.CommitIndex()
	// VerifyLeader sends every replica a heartbeat. But it counts the first answers that arrive, even if they are
	// answers to messages from before the call, and it counts replicas without a vote. So an answer of a replica that
	// has elected another leader since would confirm a deposed leader. Therefore VerifyLeader only triggers the
	// heartbeats here, and quorum counts the voters that answered messages sent after mark.
	if err := await(n.background, n.raft.VerifyLeader()); err != nil {
		return readAt{}, n.notLeader()
	}
	if err := n.transport.acks.quorum(r.ctx, mark, r.term, n.voterIDs()); err != nil {
		return readAt{}, n.notLeader()
	}
	if r.ctx.Err() != nil {
		return readAt{}, n.notLeader()
	}
	return readAt{index, r.term}, nil
}

// WaitApplied waits until this replica has applied index, which ReadIndex or Propose returned on any replica.
func (n *Node) WaitApplied(ctx context.Context, index uint64) error {
	return n.machine.Wait(ctx, index, n.stopping, ErrStopped)
}

// AppliedIndex returns the highest index that this replica has applied.
func (n *Node) AppliedIndex() uint64 { return n.machine.Applied() }

// acks stores which replicas acknowledged this one as their leader, and when the message was sent that they answered.
// That time is a mark, a counter, so clocks do not matter.
type acks struct {
	mu      sync.Mutex
	now     uint64
	last    map[string]ack
	changed chan struct{} // created by the waiter, closed by the updater
}

type ack struct{ mark, term uint64 }

// mark begins a new mark and returns it: messages that are sent later have this mark or a higher one.
func (a *acks) mark() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now++
	return a.now
}

func (a *acks) sending() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

func (a *acks) acknowledged(id string, mark, term uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = map[string]ack{}
	}
	if old := a.last[id]; old.term < term || old.term == term && old.mark < mark {
		a.last[id] = ack{mark: mark, term: term}
		if a.changed != nil {
			close(a.changed)
			a.changed = nil
		}
	}
}

// quorum waits until a majority of the voters has acknowledged, in term, messages that were sent after mark began. This
// replica counts as one if it is a voter.
func (a *acks) quorum(ctx context.Context, mark, term uint64, voters voterSet) error {
	for {
		a.mu.Lock()
		count := 0
		if voters.self {
			count++
		}
		for _, id := range voters.others {
			if got := a.last[id]; got.term == term && got.mark >= mark {
				count++
			}
		}
		if count > voters.size()/2 {
			a.mu.Unlock()
			return nil
		}
		if a.changed == nil {
			a.changed = make(chan struct{})
		}
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

type voterSet struct {
	self   bool
	others []string
}

func (v voterSet) size() int {
	if v.self {
		return len(v.others) + 1
	}
	return len(v.others)
}

func (n *Node) voterIDs() voterSet {
	var set voterSet
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		switch {
		case s.Suffrage != raft.Voter:
		case string(s.ID) == n.cfg.ID:
			set.self = true
		default:
			set.others = append(set.others, string(s.ID))
		}
	}
	return set
}

func (n *Node) voters() int { return n.voterIDs().size() }
