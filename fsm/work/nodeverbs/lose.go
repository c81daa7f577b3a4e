package nodeverbs

import (
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// LoseNode declares what ran on an unreachable node lost, as far as that may be said: with the votes of a majority, after
// the lease of each task has run out, and only what somebody may take over.
type LoseNode struct {
	Node  string `cbor:"1,keyasint,omitempty"`
	Votes []Vote `cbor:"2,keyasint,omitempty"`
	// Silent is for how long the leader has heard of no renewal, nanoseconds on its own clock, within its own term.
	Silent int64 `cbor:"3,keyasint,omitempty"`
	// Eligible are the nodes that have been in session with this leader for long enough to be trusted with a replacement.
	Eligible []string `cbor:"4,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (LoseNode) CommandNumber() uint16 { return 13 }

func init() { verbs.Add(lifecycle.Verb("LoseNode", loseNode, nil)) }

// Vote is the state of the node in the gossip of one coordinator.
type Vote struct {
	Coordinator string `cbor:"1,keyasint,omitempty"`
	Dead        bool   `cbor:"2,keyasint,omitempty"`
	// Incarnation of the agent that the vote is about; 0: its gossip has never heard of it.
	Incarnation uint64 `cbor:"3,keyasint,omitempty"`
}

// LoseNodeResult is the node as it is after the command, and how many tasks were lost; or why nothing was done.
type LoseNodeResult struct {
	Node    *work.Node
	Lost    int
	Refusal *kernel.Refusal
}

func loseNode(tx *lifecycle.Tx, c *LoseNode) LoseNodeResult {
	old, ok := tx.Node(c.Node)
	switch {
	case !ok:
		return LoseNodeResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoNode, c.Node)}
	case old.UnreachableSince == 0:
		return LoseNodeResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotBeLost, old.ID, old.State)}
	}
	dead, voters := countVotes(tx, c, old)
	if 2*dead <= voters {
		return LoseNodeResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.TooFewVotes,
			dead, voters, old.ID, voters/2+1)}
	}
	loss := work.Loss{How: work.LossDeclared, Votes: uint16(dead), Voters: uint16(voters), Silent: c.Silent}
	keys, why := tx.LossesOn(old, c.Silent, c.Eligible)
	if len(keys) == 0 && old.LostSince == 0 && c.Silent < work.DefaultLostAfter {
		return LoseNodeResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.NothingToLose, old.ID, why)}
	}
	if old.LostSince == 0 {
		n := *old
		n.LostSince = max(tx.Now, 1)
		n.Reason = reason.New(reason.CalledDead, dead, voters)
		tx.Strike(&n)
		tx.SaveNode(old, &n)
		tx.Meta.NodesLost++
		tx.Meta.Touch()
	}
	said := reason.New(reason.NodeSilentAndDead, old.ID, c.Silent/1e9, dead, voters)
	for _, k := range keys {
		if j, ok := tx.Job(k.Job); ok {
			tx.LoseTask(j, k.Rank, said, &loss, min(old.UnreachableSince, tx.Now-c.Silent))
		}
	}
	now, _ := tx.Node(c.Node)
	return LoseNodeResult{Node: now, Lost: len(keys)}
}

// countVotes counts the voters of the configuration in force that call the node dead. A voter counts once; one that
// contradicts itself does not count, and neither does a vote about an earlier start of the agent.
func countVotes(tx *lifecycle.Tx, c *LoseNode, n *work.Node) (dead, voters int) {
	for _, voter := range tx.Meta.Voters {
		says, denies := false, false
		for i := range c.Votes {
			v := &c.Votes[i]
			if v.Coordinator != voter || v.Incarnation > 0 && v.Incarnation < n.Incarnation {
				continue
			}
			says, denies = says || v.Dead, denies || !v.Dead
		}
		if says && !denies {
			dead++
		}
	}
	return dead, len(tx.Meta.Voters)
}
