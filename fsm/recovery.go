package fsm

import (
	"fmt"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Recover begins a new life of the state. The state is that of a snapshot, or of one replica whose peers are gone, so what
// the cluster acknowledged after it is not in it: jobs may have been placed, ended or canceled since, and nodes may run tasks
// that it knows nothing of.
//
// What the state knows goes on. To make sure that nothing lives twice,
//   - every node has to register again, and say what it still runs, before anything is given to it; a task that it has no
//     more has ended, nobody knows how;
//   - no job that was there before is placed until every node has done so (or was forgotten by an operator), and before its
//     own lease has run out on any node that this state has never heard of.
//
// Fencing tokens and ids are indices of the log, and so is the roster: whoever proposes a Recover does so at an index beyond
// all that the lost part of the log can have used.
type Recover struct {
	// Voters of the new life.
	Voters []string `cbor:"1,keyasint,omitempty"`
	// From says what it was recovered from.
	From  string `cbor:"2,keyasint,omitempty"`
	Actor *Actor `cbor:"3,keyasint,omitempty"`
}

// RecoverResult counts what is waited for.
type RecoverResult struct {
	// Nodes have to register; Jobs are held until they have.
	Nodes, Jobs int
}

// NoteSnapshot takes down that somebody saved the whole state to a file.
type NoteSnapshot struct {
	// By is the coordinator that wrote it.
	By    string `cbor:"1,keyasint,omitempty"`
	Actor *Actor `cbor:"2,keyasint,omitempty"`
}

// NoteSnapshotResult is empty: a NoteSnapshot is never refused.
type NoteSnapshotResult struct{}

func (NoteSnapshot) commandType() uint16 { return 25 }

func (NoteSnapshot) apply(*tx) any { return NoteSnapshotResult{} }

// recoverySettle is how much longer than a lease a task may live that runs on because its peers have no session (W and the
// stop in docs/operate/failure-model.md).
const recoverySettle = 8 * 1e9

func (Recover) commandType() uint16 { return 24 }

func (c Recover) apply(tx *tx) any {
	var res RecoverResult
	m := &tx.meta
	m.Recovered, m.RecoveredAt = tx.index, max(tx.now, 1)
	m.Voters, m.VotersIndex = append([]string(nil), c.Voters...), tx.index
	m.touch()
	tx.forgetCoordinators(c.Voters)
	var nodes []*Node
	for n := range tx.Nodes() {
		nodes = append(nodes, n)
	}
	for _, old := range nodes {
		n := *old
		n.Unheard = true
		if n.UnreachableSince == 0 {
			n.UnreachableSince = max(tx.now, 1)
		}
		n.Reason = "the cluster was recovered, and the node has not said yet what it runs"
		tx.strike(&n)
		tx.saveNode(old, &n)
	}
	var waiting []*Job
	for j := range tx.jobs.rows.rows() {
		if j.State == v1.JobState_QUEUED {
			waiting = append(waiting, j)
		}
	}
	for _, old := range waiting {
		j := *old
		tx.holdForRecovery(&j)
		j.Reason = holdReason(&j)
		tx.emitJob(&j, j.State)
		tx.saveJob(old, &j)
	}
	res.Nodes, res.Jobs = len(nodes), len(waiting)
	return res
}

// holdForRecovery keeps a job that was there before the recovery from the scheduler, for as long as an attempt of it that
// this state knows nothing of may be alive.
func (tx *tx) holdForRecovery(j *Job) {
	until := tx.meta.RecoveredAt + j.lostAfter() + recoverySettle
	if tx.meta.Recovered == 0 || j.Created > tx.meta.Recovered || tx.now >= until && tx.nodes.unheard.len() == 0 {
		return
	}
	j.Held |= HoldRecovery
	j.SettlesAt = until
}

// releaseRecovered ends the holds of a recovery that are over.
func (tx *tx) releaseRecovered(res *TickResult) {
	if tx.nodes.unheard.len() > 0 {
		return
	}
	for old := range tx.due(&tx.jobs.recovering, res) {
		j := *old
		j.Held &^= HoldRecovery
		j.SettlesAt = 0
		j.Reason = holdReason(&j)
		tx.emitJob(&j, j.State)
		tx.saveJob(old, &j)
		res.Released++
	}
}

// heard takes down what a node has left of the tasks that the state has there, now that it has registered for the first
// time since the recovery. Those that it has no more have ended, in a part of the log that is gone.
func (tx *tx) heard(node string, has func(TaskRef) bool) {
	loss := &Loss{How: LossForgottenByLog}
	for _, k := range tx.tasksOn(node) {
		j, ok := tx.Job(k.job)
		if !ok || has(TaskRef{Job: k.job, Attempt: j.Attempt, Rank: k.rank, Token: j.Token}) {
			continue
		}
		tx.loseTask(j, k.rank, fmt.Sprintf("node %s has no such task any more since the cluster was recovered", node), loss)
	}
}

// Unheard lists the nodes that have not registered since the cluster was recovered, by id.
func (v *View) Unheard() []string {
	var ids []string
	for id := range v.nodes.unheard.all() {
		ids = append(ids, id)
	}
	return ids
}

// Recovered is the index of the last recovery, and its time in Unix nanoseconds; 0: there was none.
func (v *View) Recovered() (index uint64, at int64) { return v.meta.Recovered, v.meta.RecoveredAt }
