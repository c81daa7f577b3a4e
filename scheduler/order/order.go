// Package order has the order in which waiting jobs are offered places.
//
// Contract. A [Ranking] compares jobs as the policy says: by priority, waiting time, and the GPU time that they have had
// or are predicted to need. A [Tree] holds the lanes of the classes of a pass, and gives one job after the other: the
// most urgent ones first, and among equally urgent ones those of the queue, tenant and user with the smallest share.
package order

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/policy"
)

// View is the part of the state that the order reads.
type View interface {
	Now() int64
	// Policy has the operators' settings. Accounts are the past usage of users, by queue, tenant and user. Total is the
	// capacity of the cluster.
	Policy() policy.Policy
	Accounts() iter.Seq[*accounts.Account]
	Total() accounts.Amount
	Queue(name string) (*work.Queue, bool)
	// QueueTreeGPUs is the number of GPUs, in thousandths, that jobs of a queue and of the queues below it hold.
	QueueTreeGPUs(queue string) int
	// Lanes divide a class by user.
	Lanes(class work.ClassKey) iter.Seq[work.LaneKey]
	// LaneJobsAfter fills buf with the jobs of a lane that follow a given one, the highest priority first, then the
	// oldest; nil: all jobs follow it.
	LaneJobsAfter(lane work.LaneKey, after *work.Job, buf []*work.Job) []*work.Job
}

// Class is a group of waiting jobs with the same needs and limits, as the order sees it.
type Class struct {
	Key work.ClassKey
	// Costs is the usage that each of its jobs is charged.
	Costs accounts.Usage
	// Blocked: none of its remaining jobs is offered any more.
	Blocked bool
	// Lanes is the number of its lanes in the tree.
	Lanes int
	// kept are its lanes, if they were read since a Kept was made.
	kept *keptClass
	// Number is for the caller, who finds its own record of the class by it.
	Number int
}

// NewClass returns the class of a key.
func NewClass(key *work.ClassKey) Class {
	return Class{Key: *key, Costs: key.Shape.Amount().Now()}
}
