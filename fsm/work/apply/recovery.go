package apply

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

func noteSnapshot(*tx, *work.NoteSnapshot) any { return work.NoteSnapshotResult{} }

// recoverySettle is how much longer than a lease a task may live that runs on because its peers have no session (W and the
// stop in docs/operate/failure-model.md).
const recoverySettle = 8 * 1e9

func recoverCluster(tx *tx, c *work.Recover) any {
	var res work.RecoverResult
	m := tx.meta
	m.Recovered, m.RecoveredAt = tx.index, max(tx.now, 1)
	m.Voters, m.VotersIndex = append([]string(nil), c.Voters...), tx.index
	m.Touch()
	coordinators.KeepOnly(tx.entry, c.Voters)
	var nodes []*work.Node
	for n := range tx.Nodes() {
		nodes = append(nodes, n)
	}
	for _, old := range nodes {
		n := *old
		n.Unheard = true
		if n.UnreachableSince == 0 {
			n.UnreachableSince = max(tx.now, 1)
		}
		n.Reason = reason.New(reason.NodeUnheard)
		tx.strike(&n)
		tx.saveNode(old, &n)
	}
	var waiting []*work.Job
	for j := range tx.Jobs(false, 0) {
		if j.State == v1.JobState_QUEUED || j.Array != nil && j.Waiting() {
			waiting = append(waiting, j)
		}
	}
	for _, old := range waiting {
		j := *old
		tx.holdForRecovery(&j)
		j.Reason = work.HoldReason(&j)
		tx.emitJob(&j, j.State)
		tx.saveJob(old, &j)
	}
	res.Nodes, res.Jobs = len(nodes), len(waiting)
	return res
}

// holdForRecovery keeps a job that was there before the recovery from the scheduler, for as long as an attempt of it that
// this state has no record of may be alive.
func (tx *tx) holdForRecovery(j *work.Job) {
	until := tx.meta.RecoveredAt + j.SilenceUntilLost() + recoverySettle
	if tx.meta.Recovered == 0 || j.Created > tx.meta.Recovered || tx.now >= until && tx.AllHeard() {
		return
	}
	j.Held |= work.HoldRecovery
	j.SettlesAt = until
}

// releaseRecovered ends the holds of a recovery that are over.
func (tx *tx) releaseRecovered(res *work.TickResult) {
	if !tx.AllHeard() {
		return
	}
	for old := range tx.due(tx.SettledJob, res) {
		j := *old
		j.Held &^= work.HoldRecovery
		j.SettlesAt = 0
		j.Reason = work.HoldReason(&j)
		tx.emitJob(&j, j.State)
		tx.saveJob(old, &j)
		res.Released++
	}
}

// heard takes down what a node has left of the tasks that the state has there, now that it has registered for the first
// time since the recovery. Those that it has no more have ended, in a part of the log that is gone.
func (tx *tx) heard(node string, since int64, has func(work.TaskRef) bool) {
	loss := &work.Loss{How: work.LossForgottenByLog}
	for _, k := range tx.tasksOn(node) {
		j, ok := tx.Job(k.Job)
		if !ok || has(work.TaskRef{Job: k.Job, Attempt: j.Attempt, Rank: k.Rank, Token: j.Token}) {
			continue
		}
		tx.loseTask(j, k.Rank, reason.New(reason.NodeHasNoTask, node), loss, since)
	}
}
