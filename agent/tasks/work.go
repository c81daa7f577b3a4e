package tasks

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mindcoordinator/mind/agent/gpus"
	"github.com/mindcoordinator/mind/agent/inputs"
	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	"github.com/mindcoordinator/mind/agent/taskid"
	"github.com/mindcoordinator/mind/agent/tasks/owner"
	"github.com/mindcoordinator/mind/agent/tasks/table"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// door gives workers access to the table. The table itself has none.
type door = owner.Door[*table.Table]

// work carries out the table's decisions (table.Work). The goroutine that owns the table calls its methods, which pass
// slow work to a worker.
type work struct {
	cfg       *Config
	workers   *owner.Workers[*table.Table]
	occupants *gpus.Occupants
	abandoned prometheus.Counter
	diskFulls prometheus.Counter
	idle      chan struct{}
}

func (w *work) dir(id taskid.ID) string { return filepath.Join(w.cfg.Dir, id.Name()) }

// Fetch implements table.Work.
func (w *work) Fetch(t *table.Task, spec *v1.TaskSpec) (cancel func(), needed bool) {
	if !w.cfg.Inputs.Needed(t.ID, spec) {
		return nil, false
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.workers.Go(func(d *door) {
		defer cancel()
		// The next agent continues where this one stops.
		defer context.AfterFunc(d.Context(), cancel)()
		data, err := w.cfg.Inputs.Fetch(ctx, t.ID, spec, func(r *v1.TransferReport) {
			report := outbox.About(t.ID, &v1.Report{Body: &v1.Report_Transfer{Transfer: r}}, time.Time{})
			report.Latest = "transfer"
			w.cfg.Outbox.Add(report)
		})
		var failed *shim.Exit
		if err != nil {
			exit := w.blameNode(shim.Exit{Code: -1, Failure: inputs.Failure(err), Message: err.Error()})
			failed = &exit
		}
		d.Tell(func(tb *table.Table) {
			if failed != nil {
				tb.Fetched(t, nil, failed)
				return
			}
			tb.Fetched(t, data, nil)
		})
	})
	return cancel, true
}

// Launch implements table.Work.
func (w *work) Launch(t *table.Task, spec *v1.TaskSpec, fetched any) {
	data, _ := fetched.(*inputs.Data)
	w.workers.Go(func(d *door) { w.follower(t, d).launch(spec, data) })
}

// Attach implements table.Work.
func (w *work) Attach(t *table.Task) {
	w.workers.Go(func(d *door) { w.follower(t, d).attach() })
}

// Stop implements table.Work. The shim uses the earlier of two stops, so their order does not matter.
func (w *work) Stop(t *table.Task, process table.Process, request shim.StopRequest) {
	w.workers.Go(func(*door) {
		if err := process.Stop(request); err != nil {
			w.cfg.Log.Error("cannot stop a task", "job", t.ID.Job, "error", err)
		}
	})
}

// Refuse implements table.Work.
func (w *work) Refuse(t *table.Task, exit shim.Exit) {
	w.workers.Go(func(d *door) {
		exit.Ended = time.Now().UnixNano()
		dir := w.dir(t.ID)
		err := os.MkdirAll(dir, 0o700)
		if _, missing := shim.ReadSpec(dir); err == nil && missing != nil {
			err = taskfile.Replace(dir, shim.SpecFile, shim.Spec{JobID: t.ID.Job, Refusal: exit.Message}.Encode())
		}
		if err == nil {
			err = shim.WriteExit(dir, exit)
		}
		if err != nil {
			w.cfg.Log.Error("cannot record the end of a task", "dir", dir, "error", err)
		}
		d.Tell(func(tb *table.Table) { tb.Ends(t, exit) })
	})
}

// disownedFile, in a task directory, records that the coordinators no longer wanted the task while it still ran. Its
// findings are not reported from then on: another attempt may be running.
const disownedFile = "withdrawn"

// Disown implements table.Work.
func (w *work) Disown(t *table.Task) {
	w.workers.Go(func(d *door) {
		if err := taskfile.Replace(w.dir(t.ID), disownedFile, nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
			// The next agent learns from its orders that the task is no longer wanted.
			w.cfg.Log.Error("cannot record that a task is no longer wanted", "dir", w.dir(t.ID), "error", err)
		}
		d.Tell(func(tb *table.Table) { tb.Disowned(t) })
	})
}

// Fault implements table.Work.
func (w *work) Fault(t *table.Task, why string) {
	w.workers.Go(func(d *door) {
		w.cfg.markFault(w.dir(t.ID), why)
		d.Tell(func(tb *table.Table) { tb.Stop(t, shim.StopRequest{Term: faultTerm}) })
	})
}

// Recall implements table.Work.
func (w *work) Recall(t *table.Task) {
	w.workers.Go(func(d *door) {
		exit, err := runner.ReadExit(w.dir(t.ID))
		exit = w.cause(w.dir(t.ID), exit)
		if err != nil {
			exit = shim.Exit{Code: -1, Failure: shim.FailureInternal, Message: "it is no longer known how the task ended: " + err.Error(), Ended: time.Now().UnixNano()}
		}
		d.Tell(func(tb *table.Table) { tb.Recalled(t, exit) })
	})
}

// OnAcknowledged implements table.Work.
func (w *work) OnAcknowledged(t *table.Task) func() {
	return w.workers.Later(func(d *door) {
		// If this record is lost, the end is reported once more.
		w.workers.Go(func(*door) {
			_ = shim.MarkAcked(w.dir(t.ID))
			// The rest of the directory is kept for a while. If this fails, the upload is removed with it.
			_ = os.RemoveAll(filepath.Join(w.dir(t.ID), inputs.UploadDir))
		})
		d.Tell(func(tb *table.Table) { tb.Forget(t, time.Now()) })
	})
}

// Release implements table.Work.
func (w *work) Release(id taskid.ID) {
	w.workers.Go(func(*door) { w.cfg.Inputs.Release(id) })
}

// MayRemove implements table.Work. It reports whether the directory is archived, or the time for that is over.
func (w *work) MayRemove(id taskid.ID, endedAt, now time.Time) bool {
	if w.cfg.Archived == nil || w.cfg.Archived(archivedAs(id)) {
		return true
	}
	if now.Sub(endedAt) < w.cfg.ArchiveWait {
		return false
	}
	w.abandoned.Inc()
	w.cfg.Log.Error("removing the output of a task although it is not completely archived", "job", id.Job, "attempt", id.Attempt, "rank", id.Rank, "ended", endedAt)
	return true
}

// Remove implements table.Work.
func (w *work) Remove(ids []taskid.ID) {
	w.workers.Go(func(*door) {
		for _, id := range ids {
			if err := os.RemoveAll(w.dir(id)); err != nil {
				w.cfg.Log.Error("cannot remove a task directory", "dir", w.dir(id), "error", err)
			}
		}
	})
}

// Restart implements table.Work.
func (w *work) Restart() { w.cfg.Restart() }

// Idle implements table.Work.
func (w *work) Idle() { close(w.idle) }
