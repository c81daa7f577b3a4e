package tasks

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mindcoordinator/mind/agent/gpus"
	"github.com/mindcoordinator/mind/agent/inputs"
	"github.com/mindcoordinator/mind/agent/launch"
	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/agent/outputs"
	"github.com/mindcoordinator/mind/agent/ship"
	"github.com/mindcoordinator/mind/agent/taskid"
	"github.com/mindcoordinator/mind/agent/tasks/owner"
	"github.com/mindcoordinator/mind/agent/tasks/table"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	archived "github.com/mindcoordinator/mind/archive/tasks"
)

// Config is what Tasks are told, and use.
type Config struct {
	Node string
	// Dir holds a directory for each task. It is there.
	Dir string
	// Hidden is the agent's data directory: what is in it counts as a checkpoint only where the job may write.
	Hidden string
	// Roots are directories in which checkpoints may lie, beside those of the job.
	Roots []string
	// MetricsBytes and EventsBytes bound what is read of a task's metrics and events.
	MetricsBytes, EventsBytes int64
	// MaxLaunches bounds how many tasks are launched at once.
	MaxLaunches int
	// KeepTasks and KeepTasksFor bound how many ended tasks keep their directory, and how long; ArchiveWait is how much longer
	// for an archive that has not taken it.
	KeepTasks    int
	KeepTasksFor time.Duration
	ArchiveWait  time.Duration
	// CgroupParent is where the tasks' control groups are; empty: they have none.
	CgroupParent string
	// Simulated: there is no driver that tells of an error later than the program notices.
	Simulated bool

	Processes Processes
	GPUs      *gpus.Monitor
	Outbox    table.Outbox
	Leases    Leases
	Inputs    *inputs.Inputs
	Launcher  *launch.Launcher
	Outputs   *outputs.Dirs
	Renames   *observe.Renames
	// Archived reports whether the archive has all of a task; nil: there is no archive.
	Archived func(archived.Task) bool
	// Restart asks for a new session. It does not block.
	Restart func()
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Tasks are those of the node.
type Tasks struct {
	cfg     Config
	owner   *owner.Owner[*table.Table]
	door    *owner.Door[*table.Table]
	workers *owner.Workers[*table.Table]
	idle    chan struct{}
}

// New returns no tasks yet: Adopt takes up those that are there.
func New(cfg Config) *Tasks {
	ts := &Tasks{cfg: cfg, idle: make(chan struct{})}
	notes := newMetrics(cfg.Metrics)
	ts.owner, ts.door, ts.workers = owner.New(func(workers *owner.Workers[*table.Table]) *table.Table {
		w := &work{
			cfg: &ts.cfg, workers: workers, abandoned: notes.abandoned, idle: ts.idle,
			occupants: &gpus.Occupants{Monitor: cfg.GPUs, TasksDir: cfg.Dir, Group: cfg.CgroupParent, Tasks: ts.occupying},
		}
		return table.New(table.Config{
			Node: cfg.Node, MaxLaunches: cfg.MaxLaunches, KeepTasks: cfg.KeepTasks, KeepTasksFor: cfg.KeepTasksFor,
			Work: w, Outbox: cfg.Outbox, Leases: cfg.Leases, GPUs: cfg.GPUs, Notes: notes, Log: cfg.Log,
		})
	})
	cfg.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mind_agent_tasks", Help: "Tasks on this node that have not ended."}, func() float64 {
		n := 0
		ts.door.Ask(func(tb *table.Table) { n = tb.Live() })
		return float64(n)
	}))
	return ts
}

// Run is the goroutine that owns the tasks. It ends with ctx, which must outlive Close.
func (ts *Tasks) Run(ctx context.Context) { ts.owner.Run(ctx) }

// Close lets the tasks go, which run on, and waits for the goroutines that follow them.
func (ts *Tasks) Close() { ts.workers.Close() }

// Context ends with Close.
func (ts *Tasks) Context() context.Context { return ts.door.Context() }

// Dir is the directory of a task.
func (ts *Tasks) Dir(id taskid.ID) string { return filepath.Join(ts.cfg.Dir, id.Name()) }

// Reconcile brings what runs toward what the orders want, unless ctx has ended.
func (ts *Tasks) Reconcile(ctx context.Context, orders *v1.Orders) {
	ts.door.Ask(func(tb *table.Table) {
		if ctx.Err() == nil {
			tb.Reconcile(orders, time.Now())
		}
	})
}

// Launchable is called when a task that waits may be launched now. It does not block: a busy owner looks anyway.
func (ts *Tasks) Launchable() { ts.door.Poke((*table.Table).LaunchNext) }

// EndFaulty ends the tasks on GPUs that failed.
func (ts *Tasks) EndFaulty() { ts.door.Tell((*table.Table).EndFaulty) }

// Unacknowledged names the tasks of which the coordinators have not acknowledged the end.
func (ts *Tasks) Unacknowledged() (refs []*v1.TaskRef) {
	ts.door.Ask(func(tb *table.Table) { refs = tb.Unacknowledged() })
	return refs
}

// Find returns the task of a rank; adopted: what an earlier agent left is known by now. Several tokens of one attempt cannot be,
// but if they were, the newest is meant.
func (ts *Tasks) Find(job string, attempt, rank int32) (id taskid.ID, found, adopted bool) {
	ts.door.Ask(func(tb *table.Table) {
		adopted = tb.Adopted()
		for _, t := range tb.All() {
			if t.ID.Job == job && t.ID.Attempt == attempt && t.ID.Rank == rank && (!found || t.ID.Token > id.Token) {
				id, found = t.ID, true
			}
		}
	})
	return id, found, adopted
}

// Ended reports whether a task has ended; known: its directory is there.
func (ts *Tasks) Ended(id taskid.ID) (ended, known bool) {
	ts.door.Ask(func(tb *table.Table) {
		var info table.Info
		info, known = tb.Get(id)
		ended = known && info.State == table.Ended
	})
	return ended, known
}

// LiveJobs lists the jobs that have a task here which has not ended; false: the tasks were let go.
func (ts *Tasks) LiveJobs() (jobs map[string]bool, ok bool) {
	jobs = make(map[string]bool)
	ok = ts.door.Ask(func(tb *table.Table) {
		for _, t := range tb.All() {
			if t.State != table.Ended {
				jobs[t.ID.Job] = true
			}
		}
	})
	return jobs, ok
}

// ToShip lists the tasks that the archive should have.
func (ts *Tasks) ToShip() (all []ship.Task) {
	ts.door.Ask(func(tb *table.Table) {
		for _, t := range tb.All() {
			all = append(all, ship.Task{Task: archivedAs(t.ID), Dir: ts.Dir(t.ID), Ended: t.State == table.Ended})
		}
	})
	return all
}

// Shipped is called when the archive has all of a task.
func (ts *Tasks) Shipped() { ts.door.Tell(func(tb *table.Table) { tb.Tidy(time.Now()) }) }

// archivedAs is the name of a task in the archive.
func archivedAs(id taskid.ID) archived.Task {
	return archived.Task{Job: id.Job, Attempt: id.Attempt, Rank: id.Rank, Token: id.Token}
}

// occupying lists the tasks for whoever finds out whose a process is.
func (ts *Tasks) occupying() (all []gpus.Task) {
	ts.door.Ask(func(tb *table.Table) {
		for _, t := range tb.All() {
			one := gpus.Task{Name: t.ID.Name(), Pid: t.Pid, Has: t.Has}
			if t.State == table.Ended {
				one.EndedAt = t.EndedAt
			}
			all = append(all, one)
		}
	})
	return all
}

// stopPatience is how much longer than the grace period StopAll waits, gonePatience how long for the shims to be gone.
const (
	stopPatience = 10 * time.Second
	gonePatience = 5 * time.Second
)

// StopAll stops all tasks and takes on no more. It waits until their shims are gone, too.
func (ts *Tasks) StopAll(grace time.Duration) error {
	var dirs []string
	ts.door.Ask(func(tb *table.Table) {
		for _, t := range tb.All() {
			if t.State != table.Ended || !t.Acked {
				dirs = append(dirs, ts.Dir(t.ID))
			}
		}
		tb.StopAll(grace)
	})
	limit := time.NewTimer(grace + stopPatience)
	defer limit.Stop()
	select {
	case <-ts.idle:
	case <-limit.C:
		return fmt.Errorf("the tasks did not stop within %s", grace+stopPatience)
	}
	bounded, cancel := context.WithTimeout(context.Background(), gonePatience)
	defer cancel()
	for _, dir := range dirs {
		for !ts.cfg.Processes.Gone(dir) && bounded.Err() == nil {
			wait.For(bounded, 2*time.Millisecond)
		}
	}
	return nil
}

// Adopt takes up the tasks that an earlier agent left.
func (ts *Tasks) Adopt() error {
	entries, err := os.ReadDir(ts.cfg.Dir)
	if err != nil {
		return fmt.Errorf("list tasks: %w", err)
	}
	var found []table.Left
	for _, e := range entries {
		if id, ok := taskid.Parse(e.Name()); ok && e.IsDir() {
			found = append(found, ts.cfg.left(id))
		}
	}
	ts.door.Ask(func(tb *table.Table) { tb.Adopt(found, time.Now()) })
	return nil
}
