package nodeverbs

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/gpus"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// NodeAction says what SetNode does.
type NodeAction uint8

// The actions on a node.
const (
	// NodeUnreachable: the leader has not heard of it in time. Its tasks stay. Said again with another reason, it replaces
	// the reason.
	NodeUnreachable NodeAction = iota + 1
	// NodeReachable: it is back, with the same boot. A node that was declared lost has to register instead, and say what
	// it still runs.
	NodeReachable
	// NodeDrain: an operator wants it empty.
	NodeDrain
	// NodeEnable ends a drain, and has quarantined GPUs verified again.
	NodeEnable
	// NodeForget: an operator says that it will not come back. Its tasks end as NODE_LOST.
	NodeForget
	// NodeHealth brings the state of its GPUs up to date.
	NodeHealth
	// NodeFitness takes down why its agent cannot start tasks; without a reason it can.
	NodeFitness
)

// SetNode changes one thing about a node.
type SetNode struct {
	ID     string        `cbor:"1,keyasint,omitempty"`
	Action NodeAction    `cbor:"2,keyasint,omitempty"`
	Reason reason.Reason `cbor:"3,keyasint,omitempty"`
	// Force (drain): stop what runs there now. Deadline (drain): stop what still runs so many nanoseconds later; 0: never.
	Force    bool  `cbor:"4,keyasint,omitempty"`
	Deadline int64 `cbor:"5,keyasint,omitempty"`
	// GPUs (health) is the whole inventory; a GPU that it lacks has vanished.
	GPUs  []work.GPU    `cbor:"6,keyasint,omitempty"`
	Actor *access.Actor `cbor:"7,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (SetNode) CommandNumber() uint16 { return 6 }

// AtLevel implements kernel.Leveled.
func (c SetNode) AtLevel(at level.Level) (kernel.Command, error) {
	c.GPUs = Known(c.GPUs, at)
	return c, nil
}

func init() { verbs.Add(lifecycle.Verb("SetNode", setNode, auditSetNode)) }

func setNode(tx *lifecycle.Tx, c *SetNode) NodeResult {
	old, ok := tx.Node(c.ID)
	if !ok {
		return NodeResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoNode, c.ID)}
	}
	n := *old
	switch c.Action {
	case NodeUnreachable:
		if n.UnreachableSince != 0 {
			if n.LostSince != 0 || c.Reason == "" || c.Reason == n.Reason {
				return NodeResult{Node: old}
			}
			n.Reason = c.Reason // It is still away; what is known of why has changed.
			break
		}
		n.UnreachableSince, n.Reason = max(tx.Now, 1), c.Reason
		tx.Strike(&n)
	case NodeReachable:
		if n.UnreachableSince == 0 {
			return NodeResult{Node: old}
		}
		if n.LostSince != 0 {
			return NodeResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.NodeDeclaredLost, n.ID)}
		}
		if n.Unheard {
			return NodeResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.NodeMustRegister, n.ID)}
		}
		n.UnreachableSince, n.Reason = 0, work.DrainReason(n.Drain)
		tx.Enrol(&n)
	case NodeDrain:
		d := &work.Drain{Since: tx.Now, Force: c.Force, Reason: c.Reason}
		if c.Deadline > 0 {
			d.Deadline = tx.Now + c.Deadline
		}
		n.Drain, n.Reason = d, work.DrainReason(d)
	case NodeEnable:
		if n.Drain != nil {
			n.Drain = nil
			if n.UnreachableSince == 0 {
				n.Reason = ""
			}
		}
		n.EnabledAt = tx.Index
	case NodeForget:
		return forgetNode(tx, old)
	case NodeHealth:
		if r := validateGPUs(c.GPUs); r != nil {
			return NodeResult{Refusal: r}
		}
		n.GPUs = withVanished(tx, n.ID, c.GPUs, old.GPUs)
		gpus.Learn(&tx.Models, n.GPUs)
	case NodeFitness:
		if n.Unfit == c.Reason {
			return NodeResult{Node: old}
		}
		n.Unfit = c.Reason
	default:
		return NodeResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.UnknownNodeAction, uint8(c.Action))}
	}
	tx.SaveNode(old, &n)
	if c.Action == NodeDrain && c.Force {
		tx.StopTasksOn(c.ID, v1.StopReason_DRAIN, reason.New(reason.NodeBeingDrained, c.ID))
	}
	now, _ := tx.Node(c.ID)
	return NodeResult{Node: now}
}

// forgetNode ends what the node held and takes it out of the state.
func forgetNode(tx *lifecycle.Tx, n *work.Node) NodeResult {
	endTasksOn(tx, n, reason.New(reason.NodeForgotten, n.ID), work.LossForgotten)
	tx.SettleAwaits(n.ID, func(work.TaskRef) bool { return false })
	// A gang that lost a rank here may still hold its lease until its other ranks have ended; they hold on to it by
	// name, and it is released with theirs.
	last, _ := tx.Node(n.ID)
	if last.RosterSince != 0 {
		tx.ChangeRoster()
	}
	tx.DropNode(last)
	tx.BreakPromises(last.ID)
	tx.Emit(event.Event{Topic: event.TopicNode, Nodes: []string{n.ID}, NodeFrom: last.State})
	return NodeResult{}
}

// auditOfNode has the action in the audit log of each action of operators on a node.
var auditOfNode = map[NodeAction]access.AuditAction{NodeDrain: AuditNodeDrain, NodeEnable: AuditNodeEnable, NodeForget: AuditNodeForget}

func auditSetNode(tx *kernel.Tx, c *SetNode, result NodeResult) {
	action, ok := auditOfNode[c.Action]
	if !ok {
		return
	}
	message := c.Reason
	if c.Deadline > 0 {
		message = reason.New(reason.WithDeadline, c.Deadline, message)
	}
	if c.Force {
		message = reason.New(reason.Forced, message)
	}
	access.Record(tx, c.Actor, access.AuditRecord{Action: action, Object: c.ID, Message: message}, result.Refusal)
}

// AuditNodeDrain is the action in the audit log.
var AuditNodeDrain = access.DefineAction(7, "node.drain", access.AboutOperation)

// AuditNodeEnable is the action in the audit log.
var AuditNodeEnable = access.DefineAction(8, "node.enable", access.AboutOperation)

// AuditNodeForget is the action in the audit log.
var AuditNodeForget = access.DefineAction(9, "node.forget", access.AboutOperation)
