package clusterverbs

import (
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// Recover begins a new life of the state. The state is that of a snapshot, or of one replica whose peers are gone, so what
// the cluster acknowledged after it is not in it: jobs may have been placed, ended or canceled since, and nodes may run tasks
// that it has no record of.
//
// The jobs that the state knows go on. To make sure that nothing lives twice,
//   - every node has to register again, and say what it still runs, before anything is given to it; a task that it has no
//     more has ended, nobody knows how;
//   - no job that was there before is placed until every node has done so (or was forgotten by an operator), and before its
//     own lease has run out on any node that this state has never heard of.
//
// Fencing tokens and ids are indices of the log, and so is the roster: a Recover is proposed at an index beyond
// all that the lost part of the log can have used.
type Recover struct {
	// Voters of the new life.
	Voters []string `cbor:"1,keyasint,omitempty"`
	// From says what it was recovered from.
	From  string        `cbor:"2,keyasint,omitempty"`
	Actor *access.Actor `cbor:"3,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (Recover) CommandNumber() uint16 { return 24 }

func init() { verbs.Add(lifecycle.Verb("Recover", recoverCluster, auditRecover)) }

// RecoverResult counts what is waited for.
type RecoverResult struct {
	// Nodes have to register; Jobs are held until they have.
	Nodes, Jobs int
}

func recoverCluster(tx *lifecycle.Tx, c *Recover) RecoverResult {
	var res RecoverResult
	m := tx.Meta
	m.Recovered, m.RecoveredAt = tx.Index, max(tx.Now, 1)
	m.Voters, m.VotersIndex = append([]string(nil), c.Voters...), tx.Index
	m.Touch()
	coordinators.KeepOnly(tx.Entry, c.Voters)
	var nodes []*work.Node
	for n := range tx.Nodes() {
		nodes = append(nodes, n)
	}
	for _, old := range nodes {
		n := *old
		n.Unheard = true
		if n.UnreachableSince == 0 {
			n.UnreachableSince = max(tx.Now, 1)
		}
		n.Reason = reason.New(reason.NodeUnheard)
		tx.Strike(&n)
		tx.SaveNode(old, &n)
	}
	var waiting []*work.Job
	for j := range tx.Jobs(false, 0) {
		if j.State == v1.JobState_QUEUED || j.Array != nil && j.Waiting() {
			waiting = append(waiting, j)
		}
	}
	for _, old := range waiting {
		j := *old
		tx.HoldForRecovery(&j)
		j.Reason = work.HoldReason(&j)
		tx.EmitJob(&j, j.State)
		tx.SaveJob(old, &j)
	}
	res.Nodes, res.Jobs = len(nodes), len(waiting)
	return res
}

// releaseRecovered ends the holds of a recovery that are over.
func releaseRecovered(tx *lifecycle.Tx, res *TickResult) {
	if !tx.AllHeard() {
		return
	}
	for old := range due(tx, tx.SettledJob, res) {
		j := *old
		j.Held &^= work.HoldRecovery
		j.SettlesAt = 0
		j.Reason = work.HoldReason(&j)
		tx.EmitJob(&j, j.State)
		tx.SaveJob(old, &j)
		res.Released++
	}
}

func auditRecover(tx *kernel.Tx, c *Recover, result RecoverResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: AuditClusterRecover, Object: strings.Join(c.Voters, ","), Message: reason.Text(c.From)}, nil)
}

// AuditClusterRecover is the action in the audit log.
var AuditClusterRecover = access.DefineAction(21, "cluster.recover", access.AboutOperation)
