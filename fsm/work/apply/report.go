package apply

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
)

func reportTasks(tx *tx, c *work.ReportTasks) any {
	var res work.ReportResult
	e := editor{tx: tx}
	for i := range c.Reports {
		r := &c.Reports[i]
		old := e.job(r.Job)
		if r.Kind == work.ReportEnded && old != nil && len(old.Awaits) > 0 {
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
			if r.Kind == work.ReportCheckpoint || r.Kind == work.ReportEvaluation {
				res.Stale++
			} else {
				res.Duplicate++
			}
			continue
		}
		if r.Kind == work.ReportCheckpoint && r.Digest == "" {
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
		tx.meta.Fenced += uint64(res.Stale)
		tx.meta.Incomplete += uint64(res.Incomplete)
		tx.meta.Touch()
	}
	return res
}

// editor changes one job after the other; the reports on one job that follow each other make one new row.
type editor struct {
	tx       *tx
	old      *work.Job
	copy     *work.Job
	ownTasks bool
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
		e.tx.saveJob(e.old, e.copy)
	}
	*e = editor{tx: e.tx}
}

// heard takes down that a task of a lost attempt has ended after all.
func (e *editor) heard(node string, r *work.TaskReport) {
	ended := func(a *work.AwaitedTask) bool {
		return a.Node == node && a.Attempt == r.Attempt && a.Rank == r.Rank && a.Token == r.Token
	}
	for i := range e.job(r.Job).Awaits {
		if ended(&e.job(r.Job).Awaits[i]) {
			j := e.edit()
			j.SettleAwaits(func(a *work.AwaitedTask) bool { return !ended(a) })
			e.tx.emitJob(j, j.State)
			return
		}
	}
}

// apply takes one report of a live task in; false: it says nothing new.
func (e *editor) apply(r *work.TaskReport, res *work.ReportResult) bool {
	tx := e.tx
	at := tx.now
	if r.Time > 0 {
		at = min(r.Time, tx.now)
	}
	switch r.Kind {
	case work.ReportStarting:
		if e.job(r.Job).Tasks[r.Rank].State != v1.TaskState_ASSIGNED {
			return false
		}
		e.tasks()[r.Rank].State = v1.TaskState_STARTING
		tx.advance(e.copy)
	case work.ReportRunning:
		if e.job(r.Job).Tasks[r.Rank].State == v1.TaskState_RUNNING {
			return false
		}
		t := &e.tasks()[r.Rank]
		t.State, t.StartedAt, t.Transfer = v1.TaskState_RUNNING, at, ""
		tx.advance(e.copy)
	case work.ReportEnded:
		e.tasks()
		tx.endTask(e.copy, r.Rank, r.ExitCode, r.ErrorType, r.ErrorMessage, at, began(e.copy, r.ErrorType, at))
		tx.advance(e.copy)
	case work.ReportPhase:
		j := e.job(r.Job)
		if r.Phase <= v1.JobPhase_UNSPECIFIED || r.Phase > v1.JobPhase_EXPORTING || j.Phase == r.Phase {
			return false
		}
		if j.State != v1.JobState_RUNNING {
			return false
		}
		j = e.edit()
		j.Phase = r.Phase
		tx.emitJob(j, j.State)
	case work.ReportProgress:
		p := work.Progress{Step: r.Step, Total: r.Total}
		if e.job(r.Job).Progress == p {
			return false
		}
		j := e.edit()
		j.Progress = p
		j.Streak.Reached(p.Step)
		tx.emitJob(j, j.State)
	case work.ReportTransfer:
		t := &e.job(r.Job).Tasks[r.Rank]
		if t.State == v1.TaskState_RUNNING || t.Transfer == r.Transfer || len(r.Transfer) > work.MaxTransfer {
			return false
		}
		e.tasks()[r.Rank].Transfer = r.Transfer
		tx.emitTransfer(e.copy, r.Transfer)
	case work.ReportCheckpoint:
		return e.checkpoint(r, res)
	case work.ReportEvaluation:
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

// checkpoint registers a checkpoint of a live attempt.
func (e *editor) checkpoint(r *work.TaskReport, res *work.ReportResult) bool {
	tx, j := e.tx, e.job(r.Job)
	id, fresh := tx.register(&checkpoints.Checkpoint{
		Job: j.ID, Tenant: j.Tenant, Attempt: j.Attempt, Token: j.Token, Rank: r.Rank, Node: j.Tasks[r.Rank].Node,
		Step: r.Step, Path: r.Path, Digest: r.Digest, SizeBytes: r.SizeBytes, Metrics: r.Metrics, CreatedAt: tx.now,
		Model: r.Model, Score: j.Retention.Score(r.Metrics),
	})
	if !fresh {
		return false
	}
	res.Checkpoints = append(res.Checkpoints, id)
	j = e.edit()
	if !r.Model {
		tx.committed(j)
	}
	if !r.Model {
		j.LastCheckpoint = id
	} else if last, there := tx.Checkpoint(j.LastCheckpoint); !there || last.Model {
		j.LastCheckpoint = tx.lastOf(j.ID) // The model was written over it, or it became the model.
	}
	j.Streak.Gained = true
	return true
}
