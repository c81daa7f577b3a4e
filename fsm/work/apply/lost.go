package apply

import (
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

func loseNode(tx *tx, c *work.LoseNode) any {
	old, ok := tx.Node(c.Node)
	switch {
	case !ok:
		return work.LoseNodeResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoNode, c.Node)}
	case old.UnreachableSince == 0:
		return work.LoseNodeResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.CannotBeLost, old.ID, old.State)}
	}
	dead, voters := tx.countVotes(c, old)
	if 2*dead <= voters {
		return work.LoseNodeResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.TooFewVotes,
			dead, voters, old.ID, voters/2+1)}
	}
	loss := work.Loss{How: work.LossDeclared, Votes: uint16(dead), Voters: uint16(voters), Silent: c.Silent}
	keys, why := tx.LossesOn(old, c.Silent, c.Eligible)
	if len(keys) == 0 && old.LostSince == 0 && c.Silent < work.DefaultLostAfter {
		return work.LoseNodeResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.NothingToLose, old.ID, why)}
	}
	if old.LostSince == 0 {
		n := *old
		n.LostSince = max(tx.now, 1)
		n.Reason = reason.New(reason.CalledDead, dead, voters)
		tx.strike(&n)
		tx.saveNode(old, &n)
		tx.meta.NodesLost++
		tx.meta.Touch()
	}
	said := reason.New(reason.NodeSilentAndDead, old.ID, c.Silent/1e9, dead, voters)
	for _, k := range keys {
		if j, ok := tx.Job(k.Job); ok {
			tx.loseTask(j, k.Rank, said, &loss, min(old.UnreachableSince, tx.now-c.Silent))
		}
	}
	now, _ := tx.Node(c.Node)
	return work.LoseNodeResult{Node: now, Lost: len(keys)}
}

// countVotes counts the voters of the configuration in force that call the node dead. A voter counts once; one that
// contradicts itself does not count, and neither does a vote about an earlier start of the agent.
func (tx *tx) countVotes(c *work.LoseNode, n *work.Node) (dead, voters int) {
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
