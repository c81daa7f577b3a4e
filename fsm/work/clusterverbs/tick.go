package clusterverbs

import (
	"iter"
	"slices"

	"github.com/mindcoordinator/mind/fsm/work/keys"
	"github.com/mindcoordinator/mind/fsm/work/results"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
)

const (
	// maxPerTick bounds each kind of work of one Tick, so that none takes long; TickResult.More asks for the next.
	maxPerTick = 10_000
)

// Tick lets time pass: keys expire, time limits strike, held jobs come free, drains reach their deadline, finished jobs
// beyond the bound are dropped. View.NextDue says when one is worth its while.
type Tick struct {
	// Settled: the leader's fresh period is over, so that every node that could come back has. Only then are tasks given up.
	Settled bool `cbor:"1,keyasint,omitempty"`
	// Renewing are the unreachable nodes that renew their leases through their peers: nothing on them is given up.
	Renewing []string `cbor:"2,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (Tick) CommandNumber() uint16 { return 11 }

func init() { verbs.Add(lifecycle.Verb("Tick", applyTick, nil)) }

// TickResult counts what a tick did. Work per tick is bounded; More says that another one should follow at once.
type TickResult struct {
	KeysExpired int
	TimeLimits  int
	Released    int
	Dropped     int
	GaveUp      int
	// SpecsDropped counts the submissions whose spec has gone.
	SpecsDropped int
	// OutOfHours counts the jobs that were asked to stop because the GPU hours of their tenant are used up.
	OutOfHours int
	More       bool
}

// endClaims gives up the places that were kept for too long.
func endClaims(tx *lifecycle.Tx) {
	for {
		c := tx.Ended(tx.Now)
		if c == nil {
			return
		}
		tx.EndClaim(c)
	}
}

func applyTick(tx *lifecycle.Tx, c *Tick) TickResult {
	var res TickResult
	tx.BeginAccounts()
	dropFaded(tx, &res)
	endMonths(tx, &res)
	enforceHours(tx, &res)
	expireKeys(tx, &res)
	fireTimers(tx, &res)
	if tx.TellWaiting(maxPerTick) {
		res.More = true
	}
	releaseRecovered(tx, &res)
	enforceDrains(tx)
	endClaims(tx)
	windowverbs.Turn(tx)
	if c.Settled {
		giveUp(tx, c.Renewing, &res)
	}
	dropFinished(tx, &res)
	dropSpecs(tx, &res)
	tx.Flush() // The timers of other domains may change jobs, too.
	if tx.Entry.FireTimers() {
		res.More = true
	}
	return res
}

func expireKeys(tx *lifecycle.Tx, res *TickResult) {
	for {
		k := keys.Expired(&tx.Ring, tx.Now)
		if k == nil {
			return
		}
		if res.KeysExpired == maxPerTick {
			res.More = true
			return
		}
		keys.Drop(&tx.Ring, k)
		res.KeysExpired++
	}
}

// due iterates the jobs of a list whose time has come, as many as a Tick may still change. Each must have left the list, or have
// another time, before the next is asked for.
func due(tx *lifecycle.Tx, next func(now int64) *work.Job, res *TickResult) iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		for {
			tx.Flush()
			j := next(tx.Now)
			if j == nil {
				return
			}
			if res.Released+res.TimeLimits == maxPerTick {
				res.More = true
				return
			}
			if !yield(j) {
				return
			}
		}
	}
}

// fireTimers frees the jobs whose time has come, and stops those whose time is over.
func fireTimers(tx *lifecycle.Tx, res *TickResult) {
	for old := range due(tx, tx.DueJob, res) {
		j := *old
		if j.State == v1.JobState_QUEUED {
			j.Release(tx.Now)
			j.Reason = work.HoldReason(&j)
			tx.EmitJob(&j, j.State)
			res.Released++
		} else {
			enforceLimit(tx, &j)
			res.TimeLimits++
		}
		tx.SaveJob(old, &j)
	}
}

// enforceLimit asks an attempt whose time limit is near, or reached, to stop. The rest of the time is its notice: so it is
// over by the limit, also when the Tick is late.
func enforceLimit(tx *lifecycle.Tx, j *work.Job) {
	if j.Notice == 0 {
		tx.AskToStop(j, v1.StopReason_TIME_LIMIT, j.Grace, reason.New(reason.TimeLimitReached))
		return
	}
	why, left := reason.New(reason.TimeLimitReached), max(0, j.StartedAt+j.MaxRuntime-tx.Now)
	if left > 0 {
		why = reason.New(reason.TimeLimitNear, (left+5e8)/1e9*1e9)
	}
	tx.AskToStop(j, v1.StopReason_TIME_LIMIT, left, why)
}

// enforceDrains stops what still runs on nodes whose drain has reached its deadline.
func enforceDrains(tx *lifecycle.Tx) {
	for {
		old := tx.DueDrain(tx.Now)
		if old == nil {
			return
		}
		n := *old
		d := *old.Drain
		d.Force = true
		n.Drain = &d
		tx.SaveNode(old, &n)
		tx.StopTasksOn(n.ID, v1.StopReason_DRAIN, reason.New(reason.DrainDeadline, n.ID))
	}
}

// giveUp ends the tasks on nodes that have been away for longer than their jobs would wait. Only a task that nothing
// would replace is ended here: to declare one LOST that a retry replaces takes the votes of a majority.
func giveUp(tx *lifecycle.Tx, renewing []string, res *TickResult) {
	loss := &work.Loss{How: work.LossGivenUp}
	for _, id := range tx.AwayNodes() {
		if slices.Contains(renewing, id) {
			continue
		}
		n, _ := tx.Node(id)
		away := tx.Now - n.UnreachableSince
		for _, k := range tx.TasksOn(id) {
			old, ok := tx.Job(k.Job)
			if !ok || !old.Live() || old.RetryLeft(work.RetryNodeLost) || away < old.GiveUpAfter {
				continue
			}
			if old.Tasks[k.Rank].State == v1.TaskState_ENDED {
				continue
			}
			tx.LoseTask(old, k.Rank, reason.New(reason.NodeAway, id, away/1e9), loss, n.UnreachableSince)
			res.GaveUp++
		}
	}
}

// dropFinished forgets the jobs that finished first, down to the bound, with their checkpoints and results. A job that others still
// look at, to know whether they may run, stays.
func dropFinished(tx *lifecycle.Tx, res *TickResult) {
	excess := tx.Excess()
	if excess <= 0 {
		return
	}
	if excess > maxPerTick {
		excess, res.More = maxPerTick, true
	}
	ids := tx.OldestFinished(excess)
	for _, id := range ids {
		if j, ok := tx.Job(id); ok { // otherwise it was an element, and went with its array
			res.Dropped += drop(tx, j)
		}
	}
	tx.Meta.Dropped += uint64(res.Dropped)
	tx.Meta.Touch()
}

// drop forgets a job that is over, with all that belongs to it, and says how many rows that were.
func drop(tx *lifecycle.Tx, j *work.Job) int {
	if array, _, ok := j.ID.Element(); ok {
		tx.Fold(tx.EditArray(array), j)
		return 1
	}
	rows := 0
	if j.Array != nil {
		tx.Flush() // Elements of it may have gone before it did.
		for _, e := range slices.Collect(tx.Elements(j.ID, 0)) {
			rows += forget(tx, e)
		}
	}
	return rows + forget(tx, j)
}

func forget(tx *lifecycle.Tx, j *work.Job) int {
	for _, c := range slices.Collect(tx.CheckpointsOf(j.ID)) {
		tx.Discard(c)
	}
	results.DropOf(&tx.Sheet, j.ID)
	executions.DropGates(executions.Of(tx.Entry.State), j.ID)
	tx.DropJob(j)
	return 1
}
