// Package level says what each feature level of a cluster unlocks.
//
// The replicated state holds the level. A log entry of version N is applied as level N has it, and nothing is written that
// is above the level of the state, whichever coordinator leads: a replica that runs an older version of mind could not apply
// it. The level is raised when all coordinators support the next one (package upgrade of the coordinator), and it never
// falls. Before it is raised, each coordinator can go back to the version of mind that it ran before.
//
// What depends on the level asks a [Gate]. The gates are one table, so that a level says in one place what it brings.
package level

import "fmt"

// Level is a feature level. It is also the version of the log entries that are written at it.
type Level uint8

const (
	// Oldest is the first version of log entries that this version of mind applies.
	Oldest Level = 1
	// Base is the level of a state that was never raised: what a version of mind without levels writes.
	Base Level = 2
	// Newest is the highest level that this version of mind supports.
	Newest Level = 7
)

// Gate is something that is done from a level on.
type Gate struct {
	level Level
	what  string
}

// Level is where the gate opens.
func (g Gate) Level() Level { return g.level }

// String says what is unlocked.
func (g Gate) String() string { return g.what }

// Open says whether the gate is open at a level.
func (g Gate) Open(at Level) bool { return at >= g.level }

// Check returns a *Locked while the gate is closed.
func (g Gate) Check(at Level) error {
	if g.Open(at) {
		return nil
	}
	return &Locked{Gate: g, At: at}
}

// Locked is the error of what needs a higher level than the cluster has.
type Locked struct {
	Gate Gate
	At   Level
}

// Error implements error.
func (l *Locked) Error() string {
	return fmt.Sprintf("%s needs feature level %d, and the cluster is at %d: upgrade all coordinators, then see `mind raft level`", l.Gate, l.Gate.level, l.At)
}

// The gates.
var (
	Rosters      = gate(2, "the roster of nodes that may take over from a node declared lost")
	Manifests    = gate(2, "checkpoints are taken with a manifest only")
	SettledTicks = gate(2, "tasks are given up only after the leader has heard of all nodes")
	FreshRetries = gate(2, "a retry by a user, and enabling a node, forget failures of before")
	NodeReasons  = gate(2, "the reason of a node follows what is known of it")
	Losses       = gate(2, "how a task was lost, and on which node an attempt failed")

	FreeRestarts  = gate(3, "restarts after a cause of the infrastructure do not count against max_retries, and pause longer each time")
	NotRestarted  = gate(3, "restartable: false")
	Vouching      = gate(3, "mind cancel --vouch")
	Recovery      = gate(3, "mind raft recover")
	SnapshotNotes = gate(3, "audit records of mind raft snapshot save")
	Operators     = gate(3, "audit records that name an operator without a tenant")
	WAL           = gate(3, "the Raft log is kept in wal by default")
	PastReasons   = gate(3, "past attempts always say why they ended")

	CodedReasons = gate(4, "reasons are kept as codes, not as text")

	DurableCheckpoints = gate(5, "checkpoints are uploaded to an archive, kept or given up by retention, and pinned")
	TrainingErrors     = gate(5, "DATA_FORMAT, CONFIG and DIVERGED, and errors that a program reports count as its exit")

	Arrays     = gate(6, "job arrays")
	LateModels = gate(6, "a registered checkpoint that is reported as a model becomes one")
	Preemption = gate(6, "running jobs make room for waiting ones: mind submit --preemptible")
	FairShare  = gate(6, "queues in a tree, accounts of what users had, and the policy of the scheduler as data")
	Holds      = gate(6, "after a failure of the infrastructure, the GPUs of a gang's other tasks are held for it")
	GPUChoice  = gate(6, "gpu_type names several types of GPU, of which a job gets one")

	Domains    = gate(7, "domains between nodes, nodes that a job excludes, and placement: spread")
	Backfill   = gate(7, "blocked jobs are promised when they start at the latest")
	Windows    = gate(7, "maintenance of nodes, and nodes that are reserved for a tenant")
	Notices    = gate(7, "the notice before a time limit ends with the limit, instead of beginning with it")
	MoreQuotas = gate(7, "quotas of GPUs by type, and of GPU hours")
	Schedules  = gate(7, "jobs that are submitted again and again: mind schedule")
	Guarantees = gate(7, "queues are limited by type of GPU, and get back the GPUs that they are guaranteed")
	UnfitNodes = gate(7, "a node that cannot start tasks says so, and costs no job anything")
	NoData     = gate(7, "data that no node can fetch ends a job that has done nothing yet")
	Uploads    = gate(7, "what is being uploaded to an archive is not given up by retention")
	PeerBlame  = gate(7, "a rank that fails because the node or a GPU of another one did ends the attempt by that cause")

	DrainDeadlines = gate(7, "audit records of a drain say its deadline")
)

// gates is what gate has made, in order.
var gates []Gate

func gate(at Level, what string) Gate {
	g := Gate{level: at, what: what}
	gates = append(gates, g)
	return g
}

// Unlocks lists what a level brings that the one below it has not.
func Unlocks(at Level) []string {
	var what []string
	for _, g := range gates {
		if g.level == at {
			what = append(what, g.what)
		}
	}
	return what
}

// Range is the levels that a version of mind supports: it can apply what is written at each of them.
type Range struct{ Oldest, Newest Level }

// Supported is the range of this version of mind.
func Supported() Range { return Range{Base, Newest} }

// Before is the range of versions of mind without levels.
func Before() Range { return Range{Base, Base} }

// Has says whether a level is in the range.
func (r Range) Has(l Level) bool { return r.Oldest <= l && l <= r.Newest }

// String implements fmt.Stringer.
func (r Range) String() string {
	if r.Oldest == r.Newest {
		return fmt.Sprint(r.Newest)
	}
	return fmt.Sprintf("%d to %d", r.Oldest, r.Newest)
}
