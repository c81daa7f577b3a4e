package fsm

import (
	"fmt"
	"iter"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// DefaultKeepFinished bounds the finished jobs that are kept, unless Configure says otherwise.
	DefaultKeepFinished = 250_000

	// maxPerTick bounds each kind of work of one Tick, so that none takes long; TickResult.More asks for the next.
	maxPerTick = 10_000
)

func (Tick) commandType() uint16 { return 11 }

func (c Tick) apply(tx *tx) any {
	var res TickResult
	tx.expireKeys(&res)
	tx.fireTimers(&res)
	tx.releaseRecovered(&res)
	tx.enforceDrains()
	if c.Settled || tx.version < 2 {
		tx.giveUp(c.Renewing, &res)
	}
	tx.dropFinished(&res)
	return res
}

func (tx *tx) expireKeys(res *TickResult) {
	for {
		k, ok := tx.keys.rows.tree.Min()
		if !ok || k.key.expiresAt > tx.now {
			return
		}
		if res.KeysExpired == maxPerTick {
			res.More = true
			return
		}
		tx.dropKey(k.row)
		res.KeysExpired++
	}
}

// due iterates the jobs of a list whose time has come, as many as a Tick may still change. Each must have left the list, or have
// another time, before the next is asked for.
func (tx *tx) due(list *index[jobTimer], res *TickResult) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for {
			t, ok := list.tree.Min()
			if !ok || t.at > tx.now {
				return
			}
			if res.Released+res.TimeLimits == maxPerTick {
				res.More = true
				return
			}
			if j, _ := tx.Job(t.id); !yield(j) {
				return
			}
		}
	}
}

// fireTimers frees the jobs whose time has come, and stops those whose time is over.
func (tx *tx) fireTimers(res *TickResult) {
	for old := range tx.due(&tx.jobs.timers, res) {
		j := *old
		if j.State == v1.JobState_QUEUED {
			j.release(tx.now)
			j.Reason = holdReason(&j)
			tx.emitJob(&j, j.State)
			res.Released++
		} else {
			tx.askToStop(&j, v1.StopReason_TIME_LIMIT, j.Grace, "its time limit is reached")
			res.TimeLimits++
		}
		tx.saveJob(old, &j)
	}
}

// enforceDrains stops what still runs on nodes whose drain has reached its deadline.
func (tx *tx) enforceDrains() {
	for {
		t, ok := tx.nodes.timers.tree.Min()
		if !ok || t.at > tx.now {
			return
		}
		old, _ := tx.Node(t.id)
		n := *old
		d := *old.Drain
		d.Force = true
		n.Drain = &d
		tx.saveNode(old, &n)
		tx.stopTasksOn(n.ID, v1.StopReason_DRAIN, "the drain of node "+n.ID+" has reached its deadline")
	}
}

// giveUp ends the tasks on nodes that have been away for longer than their jobs would wait. Only a task that nothing
// would replace is ended here: to declare one LOST that a retry replaces takes the votes of a majority.
func (tx *tx) giveUp(renewing []string, res *TickResult) {
	var ids []string
	for id := range tx.nodes.away.all() {
		ids = append(ids, id)
	}
	var loss *Loss
	if tx.version >= 2 {
		loss = &Loss{How: LossGivenUp}
	}
	for _, id := range ids {
		if slices.Contains(renewing, id) {
			continue
		}
		n, _ := tx.Node(id)
		away := tx.now - n.UnreachableSince
		for _, k := range tx.tasksOn(id) {
			old, ok := tx.Job(k.job)
			if !ok || !old.Live() || old.RetryLeft(RetryNodeLost) || away < old.GiveUpAfter {
				continue
			}
			if old.Tasks[k.rank].State == v1.TaskState_ENDED {
				continue
			}
			tx.loseTask(old, k.rank, fmt.Sprintf("node %s has been away for %d s", id, away/1e9), loss)
			res.GaveUp++
		}
	}
}

// dropFinished forgets the jobs that finished first, down to the bound, with their checkpoints and results. A job that others still
// look at, to know whether they may run, stays.
func (tx *tx) dropFinished(res *TickResult) {
	excess := tx.jobs.finished.len() - tx.meta.keepFinished()
	if excess <= 0 {
		return
	}
	if excess > maxPerTick {
		excess, res.More = maxPerTick, true
	}
	ids := make([]JobID, 0, excess)
	for f := range tx.jobs.finished.all() {
		if len(ids) == excess {
			break
		}
		if !tx.lookedAt(f.id) {
			ids = append(ids, f.id)
		}
	}
	for _, id := range ids {
		j, _ := tx.Job(id)
		var gone []*Checkpoint
		for c := range tx.CheckpointsOf(id) {
			gone = append(gone, c)
		}
		for _, c := range gone {
			tx.dropCheckpoint(c)
		}
		tx.dropResults(id)
		tx.dropJob(j)
	}
	res.Dropped = len(ids)
	tx.meta.Dropped += uint64(len(ids))
	tx.meta.touch()
}

func (tx *tx) lookedAt(id JobID) bool {
	for range tx.Dependents(id) {
		return true
	}
	return false
}
