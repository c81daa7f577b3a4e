// Package event has the events that watchers of the state get.
//
// There is one kind of event for all domains, because watchers follow one order: (Index, Pos) orders all events of the
// log, the same on every replica. A domain that has changes of its own adds a topic, and fills in Tenant and Name. Events
// are not part of the state: no snapshot has them, and after a restore there is one that says to look at everything again.
package event

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// Topic says what an event is about.
type Topic string

// The topics.
const (
	TopicJob         Topic = "job"
	TopicNode        Topic = "node"
	TopicLease       Topic = "lease"
	TopicCheckpoint  Topic = "checkpoint"
	TopicQueue       Topic = "queue"
	TopicCoordinator Topic = "coordinator"
	// TopicQuota: what a tenant may have was changed.
	TopicQuota Topic = "quota"
	// TopicPolicy: how the scheduler decides was changed.
	TopicPolicy Topic = "policy"
	// TopicWindow: a maintenance or a reservation of nodes was arranged, begins or is over.
	TopicWindow Topic = "window"
	// TopicSchedule: a schedule was put, deleted or run.
	TopicSchedule Topic = "schedule"
	// TopicCore: a Core was put, deleted or moved to another state.
	TopicCore Topic = "core"
	// TopicExecution: an execution of a Core was started, changed or ended.
	TopicExecution Topic = "execution"
	// TopicDecision: people are asked something, or have answered.
	TopicDecision Topic = "decision"
	// TopicState: the whole state was replaced by a snapshot; look at everything again.
	TopicState Topic = "state"
)

// Event is one change. (Index, Pos) orders all events of the log, the same on every replica.
type Event struct {
	Index  uint64
	Pos    int
	Topic  Topic
	Tenant string

	// Job is set with the topics job, lease and checkpoint; Attempt is the one concerned.
	Job     ident.Job
	Attempt uint32
	// From and To are equal when something else about the job changed (its stop intent, phase, progress, transfer, priority).
	From, To v1.JobState_Value
	Stop     v1.StopReason_Value
	Queue    string
	// Nodes are those whose orders this changes: of the tasks of the attempt, or the node itself.
	Nodes []string

	NodeFrom, NodeTo v1.NodeState_Value
	// Granted (lease) tells a grant from a release.
	Granted    bool
	Checkpoint ident.Checkpoint
	// Name of the queue, coordinator, window, schedule, Core, execution or decision.
	Name string
	// Transfer (job) says how far what a task needs is in flight to its node.
	Transfer string
}

// Key names what the event is about within its topic.
func (e Event) Key() string {
	switch e.Topic {
	case TopicJob, TopicLease:
		return e.Job.String()
	case TopicCheckpoint:
		return e.Checkpoint.String()
	case TopicNode:
		if len(e.Nodes) > 0 {
			return e.Nodes[0]
		}
	}
	return e.Name
}

// Emit tells watchers of a change, as the next one of the entry.
func Emit(tx *kernel.Tx, e Event) {
	e.Index, e.Pos = tx.Index(), tx.NextEvent()
	kernel.Emit(tx, e)
}
