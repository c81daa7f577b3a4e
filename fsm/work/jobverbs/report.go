package jobverbs

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// editor changes one job after the other; the reports on one job that follow each other make one new row.
type editor struct {
	tx       *lifecycle.Tx
	old      *work.Job
	copy     *work.Job
	ownTasks bool
}

// ReportKind is the kind of a report about a task.
type ReportKind uint8

// The kinds of reports.
const (
	ReportStarting ReportKind = iota + 1
	ReportRunning
	ReportEnded
	ReportPhase
	ReportProgress
	ReportCheckpoint
	// ReportEvaluation: a benchmark of an evaluation has a result.
	ReportEvaluation
	// ReportTransfer: what the task needs is in flight to the node, or here.
	ReportTransfer
	// ReportGate: the job has reached a gate.
	ReportGate
)

// ReportTasks reports events of tasks on one node.
type ReportTasks struct {
	Node    string       `cbor:"1,keyasint,omitempty"`
	Reports []TaskReport `cbor:"2,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (ReportTasks) CommandNumber() uint16 { return 4 }

// AtLevel implements kernel.Leveled. Gates are left out below their level: the job goes on.
func (c ReportTasks) AtLevel(at level.Level) (kernel.Command, error) {
	gate := func(r TaskReport) bool { return r.Kind == ReportGate || r.Gate != nil }
	if cores.Gate.Check(at) != nil && slices.ContainsFunc(c.Reports, gate) {
		c.Reports = slices.DeleteFunc(slices.Clone(c.Reports), gate)
	}
	return c, nil
}

func init() { verbs.Add(lifecycle.Verb("ReportTasks", reportTasks, nil)) }

// TaskReport is one event of a task, under its fencing token.
type TaskReport struct {
	Job     ident.Job  `cbor:"1,keyasint,omitempty"`
	Attempt uint32     `cbor:"2,keyasint,omitempty"`
	Rank    uint16     `cbor:"3,keyasint,omitempty"`
	Token   uint64     `cbor:"4,keyasint,omitempty"`
	Kind    ReportKind `cbor:"5,keyasint,omitempty"`
	// Time on the agent's clock, Unix nanoseconds; 0: now.
	Time int64 `cbor:"6,keyasint,omitempty"`
	// ReportEnded. ExitCode is nil when the task never ran or nobody knows. ErrorMessage also with ReportEvaluation: why there
	// are no figures.
	ExitCode     *int32             `cbor:"7,keyasint,omitempty"`
	ErrorType    v1.ErrorType_Value `cbor:"8,keyasint,omitempty"`
	ErrorMessage reason.Reason      `cbor:"9,keyasint,omitempty"`
	// ReportPhase.
	Phase v1.JobPhase_Value `cbor:"10,keyasint,omitempty"`
	// ReportProgress; Step also with ReportCheckpoint.
	Step  int64 `cbor:"11,keyasint,omitempty"`
	Total int64 `cbor:"12,keyasint,omitempty"`
	// ReportCheckpoint; Metrics also with ReportEvaluation.
	Path      string `cbor:"13,keyasint,omitempty"`
	Digest    string `cbor:"14,keyasint,omitempty"`
	SizeBytes int64  `cbor:"15,keyasint,omitempty"`
	Metrics   string `cbor:"16,keyasint,omitempty"`
	// ReportEvaluation.
	Benchmark string `cbor:"17,keyasint,omitempty"`
	Samples   int64  `cbor:"18,keyasint,omitempty"`
	// ReportTransfer; empty: nothing is in flight any more.
	Transfer string `cbor:"19,keyasint,omitempty"`
	// Model (ReportCheckpoint): it is an exported model, not to go on from.
	Model bool `cbor:"20,keyasint,omitempty"`
	// Gate (ReportGate) is the question to people. Its Path is the name of the gate, its ExpiresAt is relative; nanoseconds.
	Gate *executions.Decision `cbor:"21,keyasint,omitempty"`
}

// ReportResult counts the outcomes of the reports. All of them are settled: none needs to be sent again.
type ReportResult struct {
	Applied int
	// Duplicate ones told what was known.
	Duplicate int
	// Stale ones came from an attempt, token or node that does not hold the lease; no attempt was changed by them. (The
	// end of a task of a lost attempt is taken down all the same: that task need not be waited for any more.)
	Stale int
	// Incomplete are checkpoints without the digest of a manifest. They were refused.
	Incomplete int
	// Refused are results of a job that is no evaluation, or beyond the bounds of one.
	Refused int
	// Checkpoints are the ids registered, in the order of the reports.
	Checkpoints []ident.Checkpoint
}

// emitTransfer tells how far the data of a job is.
func emitTransfer(tx *lifecycle.Tx, j *work.Job, transfer string) {
	tx.Emit(event.Event{
		Topic: event.TopicJob, Tenant: j.Tenant, Job: j.ID, Attempt: j.Attempt, From: j.State, To: j.State,
		Stop: j.Stop, Queue: j.Queue, Nodes: work.TaskNodes(j.Tasks), Transfer: transfer,
	})
}

// committed is called when a job has registered a checkpoint: one that makes room has saved what it needs, so its notice is
// over soon.
func committed(tx *lifecycle.Tx, j *work.Job) {
	if j.Stop == v1.StopReason_PREEMPT && j.StopGrace > claims.ClosingGrace && len(tx.Awaiting(j.ID)) > 0 {
		j.StopGrace = claims.ClosingGrace
		tx.EmitJob(j, j.State)
	}
}

func reportTasks(tx *lifecycle.Tx, c *ReportTasks) ReportResult {
	var res ReportResult
	e := editor{tx: tx}
	for i := range c.Reports {
		r := &c.Reports[i]
		old := e.job(r.Job)
		if r.Kind == ReportEnded && old != nil && len(old.Awaits) > 0 {
			e.heard(c.Node, r)
			old = e.job(r.Job)
		}
		// Fencing: nothing is believed of a task but from the node that holds its lease, under the token of the lease.
		if old == nil || old.Attempt != r.Attempt || old.Token != r.Token ||
			int(r.Rank) >= len(old.Tasks) || old.Tasks[r.Rank].Node != c.Node {
			res.Stale++
			continue
		}
		if !old.Live() || old.Tasks[r.Rank].State == v1.TaskState_ENDED {
			if r.Kind == ReportCheckpoint || r.Kind == ReportEvaluation {
				res.Stale++
			} else {
				res.Duplicate++
			}
			continue
		}
		if r.Kind == ReportCheckpoint && r.Digest == "" {
			// Only a manifest says that all files of it are there: half a checkpoint must never be gone on from.
			res.Incomplete++
			continue
		}
		refused := res.Refused
		switch {
		case e.apply(r, &res):
			res.Applied++
		case res.Refused == refused:
			res.Duplicate++
		}
	}
	e.save()
	if res.Stale > 0 || res.Incomplete > 0 {
		tx.Meta.Fenced += uint64(res.Stale)
		tx.Meta.Incomplete += uint64(res.Incomplete)
		tx.Meta.Touch()
	}
	return res
}

// job returns a job as the reports so far have left it; nil: there is none.
func (e *editor) job(id ident.Job) *work.Job {
	if e.old != nil && e.old.ID == id {
		if e.copy != nil {
			return e.copy
		}
		return e.old
	}
	e.save()
	j, ok := e.tx.Job(id)
	if !ok {
		return nil
	}
	e.old = j
	return j
}

func (e *editor) edit() *work.Job {
	if e.copy == nil {
		j := *e.old
		e.copy = &j
	}
	return e.copy
}

func (e *editor) tasks() []work.Task {
	j := e.edit()
	if !e.ownTasks {
		j.Tasks = slices.Clone(j.Tasks)
		e.ownTasks = true
	}
	return j.Tasks
}

func (e *editor) save() {
	if e.copy != nil {
		e.tx.SaveJob(e.old, e.copy)
	}
	*e = editor{tx: e.tx}
}

// heard takes down that a task of a lost attempt has ended after all.
func (e *editor) heard(node string, r *TaskReport) {
	ended := func(a *work.AwaitedTask) bool {
		return a.Node == node && a.Attempt == r.Attempt && a.Rank == r.Rank && a.Token == r.Token
	}
	for i := range e.job(r.Job).Awaits {
		if ended(&e.job(r.Job).Awaits[i]) {
			j := e.edit()
			j.SettleAwaits(func(a *work.AwaitedTask) bool { return !ended(a) })
			e.tx.EmitJob(j, j.State)
			return
		}
	}
}

// apply takes one report of a live task in; false: it says nothing new.
func (e *editor) apply(r *TaskReport, res *ReportResult) bool {
	tx := e.tx
	at := tx.Now
	if r.Time > 0 {
		at = min(r.Time, tx.Now)
	}
	switch r.Kind {
	case ReportStarting:
		if e.job(r.Job).Tasks[r.Rank].State != v1.TaskState_ASSIGNED {
			return false
		}
		e.tasks()[r.Rank].State = v1.TaskState_STARTING
		tx.Advance(e.copy)
	case ReportRunning:
		if e.job(r.Job).Tasks[r.Rank].State == v1.TaskState_RUNNING {
			return false
		}
		t := &e.tasks()[r.Rank]
		t.State, t.StartedAt, t.Transfer = v1.TaskState_RUNNING, at, ""
		tx.Advance(e.copy)
	case ReportEnded:
		e.tasks()
		tx.EndTask(e.copy, r.Rank, r.ExitCode, r.ErrorType, r.ErrorMessage, at, began(e.copy, r.ErrorType, at))
		tx.Advance(e.copy)
	case ReportPhase:
		j := e.job(r.Job)
		if r.Phase <= v1.JobPhase_UNSPECIFIED || r.Phase > v1.JobPhase_EXPORTING || j.Phase == r.Phase {
			return false
		}
		if j.State != v1.JobState_RUNNING {
			return false
		}
		j = e.edit()
		j.Phase = r.Phase
		tx.EmitJob(j, j.State)
	case ReportProgress:
		p := work.Progress{Step: r.Step, Total: r.Total}
		if e.job(r.Job).Progress == p {
			return false
		}
		j := e.edit()
		j.Progress = p
		j.Streak.Reached(p.Step)
		tx.EmitJob(j, j.State)
	case ReportTransfer:
		t := &e.job(r.Job).Tasks[r.Rank]
		if t.State == v1.TaskState_RUNNING || t.Transfer == r.Transfer || len(r.Transfer) > work.MaxTransfer {
			return false
		}
		e.tasks()[r.Rank].Transfer = r.Transfer
		emitTransfer(tx, e.copy, r.Transfer)
	case ReportGate:
		if r.Gate == nil {
			return false
		}
		j := *e.job(r.Job)
		if !tx.ReachGate(&j, r.Gate) {
			return false
		}
		*e.edit() = j
	case ReportCheckpoint:
		return e.checkpoint(r, res)
	case ReportEvaluation:
		return e.evaluated(r, res)
	default:
		return false
	}
	return true
}

// began is when that began by which a task has ended: its node stops it because it was cut off for so long, and a program
// whose GPU failed may need all of its grace period to end.
func began(j *work.Job, cause v1.ErrorType_Value, at int64) int64 {
	switch cause {
	case v1.ErrorType_NODE_LOST:
		return at - j.SilenceUntilLost()
	case v1.ErrorType_GPU_FAULT:
		return at - j.StopGrace
	}
	return at
}
