package sim

// Rule is a rule of the failure model that a run can leave out, to see whether it is needed. The product has no switch
// for it: the simulation undoes the effect of the rule, at the edge of the code that has it.
type Rule uint32

// The rules.
const (
	// RuleList: only nodes on the roster that the lost node acknowledged may run replacements.
	RuleList Rule = 1 << iota
	// RuleSettle: only settled nodes may run replacements.
	RuleSettle
	// RuleHold: a replacement is launched long after the agent last said that it has no session.
	RuleHold
	// RuleAcks: a task runs on only when the others have answered.
	RuleAcks
	// RuleClosed: a task runs on only when the others answered that they have no session either.
	RuleClosed
	// RuleVerify: a heartbeat is acknowledged only after a proof of leadership that began after it came.
	RuleVerify
	// RuleFresh: silence is counted within the leader's own term.
	RuleFresh
	// RuleDurable: an agent names a roster only when it is on disk.
	RuleDurable
	// RuleHello: an agent reports its tasks when it registers.
	RuleHello
	// RuleVotes: a node is declared lost only by the votes of a majority.
	RuleVotes
	// RuleAttention: silence does not count while the leader was stopped, or had no quorum.
	RuleAttention
	// RuleDeadline: shims enforce the deadlines of tasks.
	RuleDeadline
	// RuleRelay: agents without a session renew through others.
	RuleRelay
	// RuleSession: a task is launched only in session.
	RuleSession
	// RuleOrders: in a session orders come before the first acknowledgement.
	RuleOrders
	// RuleReturn: the leases of a node that was declared lost are renewed only once it has registered again.
	RuleReturn
)

func (w *world) without(r Rule) bool { return w.off&r != 0 }
