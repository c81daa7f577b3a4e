package apply

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

func registerNode(tx *tx, c *work.RegisterNode) any {
	n := c.Node
	if r := validateNode(&n); r != nil {
		return work.NodeResult{Refusal: r}
	}
	n.ID = tx.entry.Intern(n.ID)
	n.Drain, n.UnreachableSince, n.LostSince, n.Unheard, n.Reason = nil, 0, 0, false, ""
	n.RegisteredAt, n.EnabledAt, n.RosterSince = tx.now, 0, 0
	n.RosterAcked = min(c.Node.RosterAcked, tx.meta.RosterVersion)
	old, known := tx.Node(n.ID)
	if known {
		n.Drain, n.RegisteredAt = old.Drain, old.RegisteredAt
		n.EnabledAt, n.RosterSince = old.EnabledAt, old.RosterSince
		n.Reason = work.DrainReason(n.Drain)
		if n.RosterAcked == 0 {
			// Without a roster on disk the agent lets nothing run on, whatever is thought of it here.
			n.RosterAcked = old.RosterAcked
		}
		n.GPUs = tx.withVanished(n.GPUs, old.GPUs)
		if n.RosterSince != 0 && n.GRPCAddr != old.GRPCAddr {
			// The roster says where to ask.
			tx.changeRoster()
		}
	}
	tx.enrol(&n)
	tx.LearnModels(n.GPUs)
	tx.saveNode(old, &n)
	if known && old.BootID != n.BootID {
		tx.endTasksOn(old, reason.New(reason.NodeRestarted, n.ID), work.LossReboot)
	}
	if known && old.Unheard {
		tx.heard(n.ID, tx.silentSince(old), func(t work.TaskRef) bool { return slices.Contains(c.Tasks, t) })
	}
	tx.settleAwaits(n.ID, func(t work.TaskRef) bool {
		return known && old.BootID == n.BootID && slices.Contains(c.Tasks, t)
	})
	now, _ := tx.Node(n.ID)
	return work.NodeResult{Node: now}
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

// withVanished adds to an inventory the GPUs that were there before and are not any more, unless another one has
// taken their index.
func (tx *tx) withVanished(now, before []work.GPU) []work.GPU {
	var indices uint64
	for i := range now {
		indices |= 1 << now[i].Index
	}
	for _, g := range before {
		if indices&(1<<g.Index) != 0 || slices.ContainsFunc(now, func(o work.GPU) bool { return g.UUID != "" && o.UUID == g.UUID }) {
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

// saveNode puts a changed node in, after its state was derived again, and says so. n is a copy that nobody else holds.
func (tx *tx) saveNode(old, n *work.Node) {
	switch {
	case n.LostSince != 0:
		n.State = v1.NodeState_LOST
	case n.UnreachableSince != 0:
		n.State = v1.NodeState_UNREACHABLE
	case n.Drain != nil && tx.InUse(n.ID).Tasks == 0:
		n.State = v1.NodeState_DRAINED
	case n.Drain != nil:
		n.State = v1.NodeState_DRAINING
	case n.Unfit != "":
		n.State = v1.NodeState_UNFIT
	default:
		n.State = v1.NodeState_READY
	}
	n.UpdatedAt, n.Revision = tx.now, tx.index
	e := event.Event{Topic: event.TopicNode, Nodes: []string{n.ID}, NodeTo: n.State}
	if old != nil {
		e.NodeFrom = old.State
	}
	tx.PutNode(old, n)
	tx.emit(e)
	tx.breakPromises(n.ID)
}

// emptied is called when a lease on a node ended: a drain may be complete.
func (tx *tx) emptied(id string) {
	n, ok := tx.Node(id)
	if !ok || n.State != v1.NodeState_DRAINING || tx.InUse(id).Tasks != 0 {
		return
	}
	done := *n
	tx.saveNode(n, &done)
}
