package tasks

import (
	"errors"
	"os"
	"time"

	"github.com/mindcoordinator/mind/agent/inputs"
	"github.com/mindcoordinator/mind/agent/launch"
	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/series"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/tasks/table"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
)

// follower follows one task, on its own goroutine, from its launch until the task or the agent ends.
type follower struct {
	*work
	task *table.Task
	dir  string
	door *door
}

func (w *work) follower(t *table.Task, d *door) *follower {
	return &follower{work: w, task: t, dir: w.dir(t.ID), door: d}
}

// launch starts the shim of the task and follows it.
func (f *follower) launch(spec *v1.TaskSpec, data *inputs.Data) {
	if f.unfit() {
		return
	}
	if refused := f.fit(); refused != nil {
		f.neverRan(*refused)
		return
	}
	s := f.cfg.Launcher.Spec(f.task.ID, f.dir, spec, data)
	due := false
	f.door.Ask(func(tb *table.Table) { due = tb.StillDue(f.task, spec) })
	if !due {
		return
	}
	s.Lease = f.cfg.Leases.Launched(f.task.ID)
	write := launch.Prepare(spec, data)
	prepare := func(dir string) error {
		if write != nil {
			if err := write(dir, f.dir); err != nil {
				return err
			}
		}
		if err := f.cfg.Launcher.Bound(f.task.ID, s, dir); err != nil {
			return err
		}
		return f.cfg.Launcher.Fence(s, spec)
	}
	o := f.observe(s)
	defer o.end()
	process, err := f.cfg.Processes.Start(f.dir, s, prepare)
	if err != nil {
		o.over()
		f.cfg.Log.Error("cannot launch a task", "job", f.task.ID.Job, "error", err)
		f.neverRan(f.notLaunched(err))
		return
	}
	f.mind(process, o)
}

func (f *follower) neverRan(exit shim.Exit) {
	f.door.Tell(func(tb *table.Table) { tb.NeverRan(f.task, exit) })
}

// attach finds the shim of a task that an earlier agent launched.
func (f *follower) attach() {
	for pauses := (wait.Backoff{First: time.Second, Longest: time.Minute}); ; {
		process, err := f.cfg.Processes.Attach(f.dir)
		switch {
		case f.endedUnread(err):
			return
		case err == nil:
			s, err := shim.ReadSpec(f.dir)
			if err != nil {
				// The task runs or has ended anyway; its files are not observed.
				f.cfg.Log.Error("cannot read the specification of a task", "dir", f.dir, "error", err)
			}
			f.cfg.Leases.Adopt(f.task.ID, s.Lease)
			o := f.observe(s)
			defer o.end()
			f.mind(process, o)
			return
		case errors.Is(err, runner.ErrNotBegun):
			if err := os.RemoveAll(f.dir); err == nil {
				f.door.Tell(func(tb *table.Table) { tb.Again(f.task) })
				return
			}
		}
		f.cfg.Log.Error("cannot adopt a task", "dir", f.dir, "error", err)
		if wait.For(f.door.Context(), pauses.Next()); f.door.Closed() {
			return
		}
	}
}

// observed observes the files of a task, and holds its output directories.
type observed struct {
	*follower
	watcher *observe.Watcher
	series  *series.Recorder
	dirs    []string
}

// observe starts to observe the files of a task, before the task is started.
func (f *follower) observe(s shim.Spec) *observed {
	f.cfg.Outputs.Use(s.Dirs)
	recorder := f.cfg.Series.Open(f.task.ID, f.dir, f.task.Has)
	return &observed{follower: f, dirs: s.Dirs, series: recorder, watcher: observe.New(observe.Config{
		Dir: f.dir, Spec: s, MetricsBytes: f.cfg.MetricsBytes, EventsBytes: f.cfg.EventsBytes, Roots: f.cfg.Roots, Private: f.cfg.Private,
		Denied: f.denied, Series: recorder, Renames: f.cfg.Renames, Log: f.cfg.Log,
	})}
}

// denied records that the task has reported a private path as a checkpoint.
func (f *follower) denied(path string) {
	if f.cfg.Denied != nil {
		f.cfg.Denied(f.task.ID.Job, "checkpoint", path)
	}
}

// end ends the observation, however the task ends.
func (o *observed) end() {
	o.watcher.End()
	o.cfg.Series.Close(o.task.ID, o.series)
	o.cfg.Outputs.Leave(o.dirs, false)
}

// over is called when no process of the task is left.
func (o *observed) over() {
	o.cfg.Outputs.Leave(o.dirs, true)
	o.dirs = nil
}

// mind follows a task until the task or the agent ends.
func (f *follower) mind(process Process, o *observed) {
	defer process.Close()
	f.cfg.Leases.Attach(f.task.ID, process)
	defer f.cfg.Leases.Attach(f.task.ID, nil)
	f.door.Tell(func(tb *table.Table) { tb.Attached(f.task, process) })
	o.watcher.OnRemark(func(text string) { _ = process.Remark(text) })
	scanner := o.watcher.Scanner()
	defer scanner.Close()
	ran := false
	tick := time.NewTimer(0)
	<-tick.C
	defer tick.Stop()
	for {
		select {
		case e, ok := <-process.Events():
			switch {
			case !ok:
				return
			case e.Deadline != nil:
				f.cfg.Leases.Restore(f.task.ID, *e.Deadline)
			case e.Running:
				ran = true
				// Findings in the task's files are reported after this.
				f.runs(e.Pid, e.Time)
				tick.Reset(observe.Interval)
			case e.Exit != nil:
				f.exited(*e.Exit, ran, o, scanner)
				return
			}
		case now := <-tick.C:
			scanner.Ask(now)
		case found := <-scanner.Found():
			tick.Reset(scanner.Came())
			f.register(found)
		case <-f.door.Context().Done():
			return
		}
	}
}

func (f *follower) runs(pid int, at int64) {
	f.door.Ask(func(tb *table.Table) { tb.Runs(f.task, pid, time.Unix(0, at)) })
}

// exited reports the end of the task after all of its findings.
func (f *follower) exited(exit shim.Exit, ran bool, o *observed, scanner *observe.Scanner) {
	if exit.Pid != 0 {
		if !ran {
			f.runs(exit.Pid, exit.Started)
		}
		// The last findings are reported before the end.
		found, whole := scanner.Last(exit.Code == 0, f.door.Context().Done())
		if f.door.Closed() {
			return // the next agent looks and reports
		}
		if !whole {
			f.cfg.Log.Error("the last output of a task was not read in time", "dir", f.dir, "within", observe.LastLook)
		}
		f.register(found)
	}
	exit = f.diskFull(f.explain(exit), o.dirs)
	o.over()
	exit = f.blameNode(exit)
	if len(f.task.Has.GPUs) > 0 {
		f.occupants.Verify(f.door.Context(), f.task.ID.Name(), f.task.Has)
	}
	f.door.Tell(func(tb *table.Table) { tb.Ends(f.task, exit) })
}

// register reports the findings.
func (f *follower) register(found []observe.Finding) {
	if len(found) == 0 {
		return
	}
	reports := make([]*outbox.Report, 0, len(found))
	for _, one := range found {
		r := outbox.About(f.task.ID, one.Body, one.At)
		r.Latest, r.Acked = one.Latest, one.Acked
		reports = append(reports, r)
	}
	f.door.Ask(func(tb *table.Table) { tb.Report(f.task, reports...) })
}
