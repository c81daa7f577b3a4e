package apply

import (
	"iter"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

const (
	// maxPerTick bounds each kind of work of one Tick, so that none takes long; TickResult.More asks for the next.
	maxPerTick = 10_000
)

func applyTick(tx *tx, c *work.Tick) any {
	var res work.TickResult
	tx.openAccounts()
	tx.dropFaded(&res)
	tx.endMonths(&res)
	tx.expireKeys(&res)
	tx.fireTimers(&res)
	tx.releaseRecovered(&res)
	tx.enforceDrains()
	tx.endClaims()
	tx.turnWindows()
	if c.Settled {
		tx.giveUp(c.Renewing, &res)
	}
	tx.dropFinished(&res)
	if tx.entry.FireTimers() {
		res.More = true
	}
	return res
}

func (tx *tx) expireKeys(res *work.TickResult) {
	for {
		k := tx.ExpiredKey(tx.now)
		if k == nil {
			return
		}
		if res.KeysExpired == maxPerTick {
			res.More = true
			return
		}
		tx.DropKey(k)
		res.KeysExpired++
	}
}

// due iterates the jobs of a list whose time has come, as many as a Tick may still change. Each must have left the list, or have
// another time, before the next is asked for.
func (tx *tx) due(next func(now int64) *work.Job, res *work.TickResult) iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		for {
			tx.flush()
			j := next(tx.now)
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
func (tx *tx) fireTimers(res *work.TickResult) {
	for old := range tx.due(tx.DueJob, res) {
		j := *old
		if j.State == v1.JobState_QUEUED {
			j.Release(tx.now)
			j.Reason = work.HoldReason(&j)
			tx.emitJob(&j, j.State)
			res.Released++
		} else {
			tx.enforceLimit(&j)
			res.TimeLimits++
		}
		tx.saveJob(old, &j)
	}
}

// enforceLimit asks an attempt whose time limit is near, or reached, to stop. What is left of the time is its notice: so it is
// over by the limit, also when the Tick is late.
func (tx *tx) enforceLimit(j *work.Job) {
	if j.Notice == 0 {
		tx.askToStop(j, v1.StopReason_TIME_LIMIT, j.Grace, reason.New(reason.TimeLimitReached))
		return
	}
	why, left := reason.New(reason.TimeLimitReached), max(0, j.StartedAt+j.MaxRuntime-tx.now)
	if left > 0 {
		why = reason.New(reason.TimeLimitNear, (left+5e8)/1e9*1e9)
	}
	tx.askToStop(j, v1.StopReason_TIME_LIMIT, left, why)
}

// enforceDrains stops what still runs on nodes whose drain has reached its deadline.
func (tx *tx) enforceDrains() {
	for {
		old := tx.DueDrain(tx.now)
		if old == nil {
			return
		}
		n := *old
		d := *old.Drain
		d.Force = true
		n.Drain = &d
		tx.saveNode(old, &n)
		tx.stopTasksOn(n.ID, v1.StopReason_DRAIN, reason.New(reason.DrainDeadline, n.ID))
	}
}

// giveUp ends the tasks on nodes that have been away for longer than their jobs would wait. Only a task that nothing
// would replace is ended here: to declare one LOST that a retry replaces takes the votes of a majority.
func (tx *tx) giveUp(renewing []string, res *work.TickResult) {
	loss := &work.Loss{How: work.LossGivenUp}
	for _, id := range tx.AwayNodes() {
		if slices.Contains(renewing, id) {
			continue
		}
		n, _ := tx.Node(id)
		away := tx.now - n.UnreachableSince
		for _, k := range tx.tasksOn(id) {
			old, ok := tx.Job(k.Job)
			if !ok || !old.Live() || old.RetryLeft(work.RetryNodeLost) || away < old.GiveUpAfter {
				continue
			}
			if old.Tasks[k.Rank].State == v1.TaskState_ENDED {
				continue
			}
			tx.loseTask(old, k.Rank, reason.New(reason.NodeAway, id, away/1e9), loss, n.UnreachableSince)
			res.GaveUp++
		}
	}
}

// dropFinished forgets the jobs that finished first, down to the bound, with their checkpoints and results. A job that others still
// look at, to know whether they may run, stays.
func (tx *tx) dropFinished(res *work.TickResult) {
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
			res.Dropped += tx.drop(j)
		}
	}
	tx.meta.Dropped += uint64(res.Dropped)
	tx.meta.Touch()
}

// drop forgets a job that is over, with all that belongs to it, and says how many rows that were.
func (tx *tx) drop(j *work.Job) int {
	if array, _, ok := j.ID.Element(); ok {
		tx.fold(tx.editArray(array), j)
		return 1
	}
	rows := 0
	if j.Array != nil {
		tx.flush() // Elements of it may have gone before it did.
		for _, e := range slices.Collect(tx.Elements(j.ID, 0)) {
			rows += tx.forget(e)
		}
	}
	return rows + tx.forget(j)
}

func (tx *tx) forget(j *work.Job) int {
	for _, c := range slices.Collect(tx.CheckpointsOf(j.ID)) {
		tx.discard(c)
	}
	tx.DropResults(j.ID)
	tx.DropJob(j)
	return 1
}
