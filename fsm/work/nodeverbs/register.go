package nodeverbs

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/work/gpus"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// RegisterNode makes a node known, or brings what is known of it up to date; it also ends an unreachability. State,
// Drain, the times and the roster in Node are ignored: they are the FSM's. (RosterAcked is not: it is the version that
// the agent has on disk; 0: none, or unknown.) A new BootID ends the node's tasks.
type RegisterNode struct {
	Node work.Node `cbor:"1,keyasint,omitempty"`
	// Tasks are those that the agent still has: alive, or ended and not yet acknowledged. A task of a lost attempt that
	// is not among them is gone.
	Tasks []work.TaskRef `cbor:"2,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (RegisterNode) CommandNumber() uint16 { return 5 }

// AtLevel implements kernel.Leveled.
func (c RegisterNode) AtLevel(at level.Level) (kernel.Command, error) {
	c.Node.GPUs = Known(c.Node.GPUs, at)
	return c, nil
}

func init() { verbs.Add(lifecycle.Verb("RegisterNode", registerNode, nil)) }

// NodeResult is the node as it is after the command (nil when it was forgotten), or why nothing was done.
type NodeResult struct {
	Node    *work.Node
	Refusal *kernel.Refusal
}

func registerNode(tx *lifecycle.Tx, c *RegisterNode) NodeResult {
	n := c.Node
	if r := validateNode(&n); r != nil {
		return NodeResult{Refusal: r}
	}
	n.ID = tx.Entry.Intern(n.ID)
	n.Drain, n.UnreachableSince, n.LostSince, n.Unheard, n.Reason = nil, 0, 0, false, ""
	n.RegisteredAt, n.EnabledAt, n.RosterSince = tx.Now, 0, 0
	n.RosterAcked = min(c.Node.RosterAcked, tx.Meta.RosterVersion)
	old, known := tx.Node(n.ID)
	if known {
		n.Drain, n.RegisteredAt = old.Drain, old.RegisteredAt
		n.EnabledAt, n.RosterSince = old.EnabledAt, old.RosterSince
		n.Reason = work.DrainReason(n.Drain)
		if n.RosterAcked == 0 {
			// Without a roster on disk the agent lets nothing run on, whatever is thought of it here.
			n.RosterAcked = old.RosterAcked
		}
		n.GPUs = withVanished(tx, n.ID, n.GPUs, old.GPUs)
		if n.RosterSince != 0 && n.GRPCAddr != old.GRPCAddr {
			// The roster says where to ask.
			tx.ChangeRoster()
		}
	}
	tx.Enrol(&n)
	gpus.Learn(&tx.Models, n.GPUs)
	tx.SaveNode(old, &n)
	if known && old.BootID != n.BootID {
		endTasksOn(tx, old, reason.New(reason.NodeRestarted, n.ID), work.LossReboot)
	}
	if known && old.Unheard {
		heard(tx, n.ID, silentSince(tx, old), func(t work.TaskRef) bool { return slices.Contains(c.Tasks, t) })
	}
	tx.SettleAwaits(n.ID, func(t work.TaskRef) bool {
		return known && old.BootID == n.BootID && slices.Contains(c.Tasks, t)
	})
	now, _ := tx.Node(n.ID)
	return NodeResult{Node: now}
}

func validateNode(n *work.Node) *kernel.Refusal {
	if n.ID == "" {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.NodeWithoutID)
	}
	return validateGPUs(n.GPUs)
}

func validateGPUs(gpus []work.GPU) *kernel.Refusal {
	var seen uint64
	for i := range gpus {
		at := gpus[i].Index
		if at >= work.MaxGPUs {
			return kernel.Refuse(kernel.CodeInvalidArgument, reason.GPUIndexTooLarge, at, work.MaxGPUs)
		}
		if seen&(1<<at) != 0 {
			return kernel.Refuse(kernel.CodeInvalidArgument, reason.GPUIndexTwice, at)
		}
		seen |= 1 << at
	}
	return nil
}

// withVanished adds to the inventory of a node the GPUs that were there before and are not any more, unless another one has taken
// their index, or their GPU was divided in another way while no job had them.
func withVanished(tx *lifecycle.Tx, node string, now, before []work.GPU) []work.GPU {
	var indices uint64
	for i := range now {
		indices |= 1 << now[i].Index
	}
	for _, g := range before {
		if indices&(1<<g.Index) != 0 || slices.ContainsFunc(now, func(o work.GPU) bool { return g.UUID != "" && o.UUID == g.UUID }) {
			continue
		}
		if use := tx.InUse(node); gpus.Redivided(&g, now) && (use.Exclusive|use.Shared)&(1<<g.Index) == 0 {
			continue
		}
		if g.Health != v1.GpuHealth_VANISHED {
			g.Health, g.HealthReason = v1.GpuHealth_VANISHED, reason.New(reason.GPUVanished)
		}
		now = append(now, g)
	}
	slices.SortFunc(now, func(a, b work.GPU) int { return int(a.Index) - int(b.Index) })
	return now
}

// silentSince is since when a node has been silent: at the latest since now, when its tasks are found to be gone.
func silentSince(tx *lifecycle.Tx, n *work.Node) int64 {
	if n.UnreachableSince != 0 {
		return n.UnreachableSince
	}
	return tx.Now
}

// endTasksOn ends every task on a node, as it was until now, as lost with it.
func endTasksOn(tx *lifecycle.Tx, n *work.Node, why reason.Reason, how work.LossKind) {
	loss := &work.Loss{How: how}
	for _, k := range tx.TasksOn(n.ID) {
		if old, ok := tx.Job(k.Job); ok {
			tx.LoseTask(old, k.Rank, why, loss, silentSince(tx, n))
		}
	}
}

// heard takes down what a node has left of the tasks that the state has there, now that it has registered for the first
// time since the recovery. Those that it has no more have ended, in a part of the log that is gone.
func heard(tx *lifecycle.Tx, node string, since int64, has func(work.TaskRef) bool) {
	loss := &work.Loss{How: work.LossForgottenByLog}
	for _, k := range tx.TasksOn(node) {
		j, ok := tx.Job(k.Job)
		if !ok || has(work.TaskRef{Job: k.Job, Attempt: j.Attempt, Rank: k.Rank, Token: j.Token}) {
			continue
		}
		tx.LoseTask(j, k.Rank, reason.New(reason.NodeHasNoTask, node), loss, since)
	}
}
