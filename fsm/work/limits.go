package work

import (
	"math"
)

// BlameWithin is how long after the exit of a rank the node or a GPU of another rank may be found to have failed, and still
// be why it exited: the silence of a node is noticed after the connections to it have broken.
const BlameWithin = 30 * 1e9

// MinLostAfter is the least time for which a node must be silent before a task on it can be lost, whatever the job says.
const MinLostAfter = 10 * 1e9

// DefaultQueue exists from the start and cannot be deleted.
const DefaultQueue = "default"

// MaxQueueName bounds the name of a queue, in bytes.
const MaxQueueName = 63

// MaxQueueDepth bounds the tree of queues: how many there are from a root to a leaf.
const MaxQueueDepth = 8

// MaxQueueWeight bounds the weight of a queue.
const MaxQueueWeight = 1_000_000

const (
	// maxQuotaText bounds the texts of a quota, in bytes.
	MaxQuotaText = 256
	// MaxQuota bounds each limit.
	MaxQuota = math.MaxInt32
)

// Defaults (nanoseconds) and limits of the values of a job.
const (
	DefaultLostAfter   = 60 * 1e9
	DefaultGiveUpAfter = 24 * 60 * 60 * 1e9
	DefaultGrace       = 30 * 1e9
	MaxPriority        = 10
	MaxDependencies    = 100
	MaxFractionMilli   = 999

	// maxDuration (a hundred years) keeps sums of times from overflowing.
	MaxDuration = 100 * 365 * 24 * 60 * 60 * 1e9
)
