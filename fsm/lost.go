package fsm

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// MinLostAfter is the least time for which a node must be silent before a task on it can be lost, whatever the job says.
const MinLostAfter = 10 * 1e9

// LoseNode declares what ran on an unreachable node lost, as far as that may be said: with the votes of a majority, after
// the lease of each task has run out, and only what somebody may take over.
type LoseNode struct {
	Node  string `cbor:"1,keyasint,omitempty"`
	Votes []Vote `cbor:"2,keyasint,omitempty"`
	// Silent is for how long the leader has heard of no renewal, nanoseconds on its own clock, within its own reign.
	Silent int64 `cbor:"3,keyasint,omitempty"`
	// Eligible are the nodes that have been in session with this leader for long enough to be trusted with a replacement.
	Eligible []string `cbor:"4,keyasint,omitempty"`
}

// Vote is what the gossip of one coordinator says of the node.
type Vote struct {
	Coordinator string `cbor:"1,keyasint,omitempty"`
	Dead        bool   `cbor:"2,keyasint,omitempty"`
	// Incarnation of the agent that the vote is about; 0: its gossip has never heard of it.
	Incarnation uint64 `cbor:"3,keyasint,omitempty"`
}

// LoseNodeResult is the node as it is after the command, and how many tasks were lost; or why nothing was done.
type LoseNodeResult struct {
	Node    *Node
	Lost    int
	Refusal *Refusal
}

func (LoseNode) commandType() uint16 { return 13 }

func (c LoseNode) apply(tx *tx) any {
	old, ok := tx.Node(c.Node)
	switch {
	case !ok:
		return LoseNodeResult{Refusal: refuse(CodeNotFound, "there is no node %q", c.Node)}
	case old.UnreachableSince == 0:
		return LoseNodeResult{Refusal: refuse(CodeFailedPrecondition, "node %s is %s: only one that cannot be reached can be lost", old.ID, old.State)}
	}
	dead, voters := tx.countVotes(&c, old)
	if 2*dead <= voters {
		return LoseNodeResult{Refusal: refuse(CodeFailedPrecondition, "%d of %d voters say that node %s is dead: it takes %d",
			dead, voters, old.ID, voters/2+1)}
	}
	loss := Loss{How: LossVerdict, Votes: uint16(dead), Voters: uint16(voters), Silent: c.Silent}
	keys, why := tx.losable(old, c.Silent, c.Eligible)
	if len(keys) == 0 && old.LostSince == 0 && c.Silent < DefaultLostAfter {
		return LoseNodeResult{Refusal: refuse(CodeFailedPrecondition, "nothing on node %s can be declared lost now: %s", old.ID, why)}
	}
	if old.LostSince == 0 {
		n := *old
		n.LostSince = max(tx.now, 1)
		n.Reason = fmt.Sprintf("%d of %d coordinators call it dead", dead, voters)
		tx.strike(&n)
		tx.saveNode(old, &n)
		tx.meta.NodesLost++
		tx.meta.touch()
	}
	text := fmt.Sprintf("node %s was silent for %d s, and %d of %d coordinators call it dead", old.ID, c.Silent/1e9, dead, voters)
	for _, k := range keys {
		if j, ok := tx.Job(k.job); ok {
			tx.loseTask(j, k.rank, text, &loss)
		}
	}
	now, _ := tx.Node(c.Node)
	return LoseNodeResult{Node: now, Lost: len(keys)}
}

// countVotes counts the voters of the configuration in force that call the node dead. A voter counts once; one that
// contradicts itself does not count, and neither does a vote about an earlier start of the agent.
func (tx *tx) countVotes(c *LoseNode, n *Node) (dead, voters int) {
	for _, voter := range tx.meta.Voters {
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
	return dead, len(tx.meta.Voters)
}

// lostAfter is how long a node must have been silent before a task of the job on it can be lost.
func (j *Job) lostAfter() int64 { return max(j.LostAfter, MinLostAfter) }

// losable lists the tasks on a node that a verdict would declare lost now, and says why it does not list the others.
func (s *state) losable(n *Node, silent int64, eligible []string) (keys []leaseKey, why string) {
	var tasks, final, early, alone int
	for l := range s.LeasesOn(n.ID) {
		j, ok := s.Job(l.Job)
		if !ok || !j.Live() || int(l.Rank) >= len(j.Tasks) || j.Tasks[l.Rank].State == v1.TaskState_ENDED {
			continue
		}
		tasks++
		switch {
		case !j.RetryLeft(RetryNodeLost):
			final++
		case silent < j.lostAfter():
			early++
		case !s.anyoneElse(j, n, eligible):
			alone++
		default:
			keys = append(keys, leaseKey{l.Node, l.Job, l.Rank})
		}
	}
	var parts []string
	for _, p := range []struct {
		n    int
		text string
	}{
		{final, "have no retry left"},
		{early, "have not been unheard of for as long as their jobs wait"},
		{alone, "could be taken over by no node"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.text))
		}
	}
	if tasks == 0 {
		parts = append(parts, "nothing runs there, and it was silent for less than a minute")
	}
	return keys, fmt.Sprintf("of %d tasks, ", tasks) + strings.Join(parts, ", ")
}

// anyoneElse says whether any of the nodes may take over from n what it runs of j.
func (s *state) anyoneElse(j *Job, n *Node, eligible []string) bool {
	return slices.ContainsFunc(eligible, func(id string) bool {
		m, ok := s.Node(id)
		return ok && m.ID != n.ID && m.RosterSince != 0 && m.RosterSince <= n.RosterAcked && j.MayRunOn(m)
	})
}

// Losable is how many tasks a LoseNode with such a silence and such nodes to take over would declare lost, given its
// votes. It saves proposing one that would be refused.
func (v *View) Losable(node string, silent int64, eligible []string) int {
	n, ok := v.Node(node)
	if !ok || n.UnreachableSince == 0 {
		return 0
	}
	keys, _ := v.losable(n, silent, eligible)
	return len(keys)
}

// NodesLost is how many nodes were declared lost, ever.
func (v *View) NodesLost() uint64 { return v.meta.NodesLost }
