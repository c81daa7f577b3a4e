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
	"github.com/mindcoordinator/mind/agent/logship"
	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/agent/outputs"
	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/series"
	"github.com/mindcoordinator/mind/agent/taskid"
	"github.com/mindcoordinator/mind/agent/tasks/owner"
	"github.com/mindcoordinator/mind/agent/tasks/table"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	archived "github.com/mindcoordinator/mind/archive/tasks"
)

// Config configures Tasks.
type Config struct {
	Node string
	// Dir holds a directory for each task. It exists.
	Dir string
	// Private are directories in which only a job's own directories may be registered as its checkpoints.
	Private *private.Paths
	// Denied is called for each private path that a job tried to read through its agent; what names the purpose, such
	// as "checkpoint".
	Denied func(job, what, path string)
	// Roots are directories that may contain checkpoints, beside those of the job.
	Roots []string
	// MetricsBytes and EventsBytes limit how much of a task's metrics and events is read.
	MetricsBytes, EventsBytes int64
	// MaxLaunches limits how many tasks are launched at once.
	MaxLaunches int
	// KeepTasks limits how many ended tasks keep their directory, KeepTasksFor how long they keep it, and ArchiveWait
	// how much longer if the task is not archived yet.
	KeepTasks    int
	KeepTasksFor time.Duration
	ArchiveWait  time.Duration
	// Groups is the directory of the tasks' control groups; empty: they have none.
	Groups string
	// Simulated: the GPUs are simulated, so no driver reports errors after the program has noticed them.
	Simulated bool

	Processes Processes
	GPUs      *gpus.Monitor
	Outbox    table.Outbox
	Leases    Leases
	Inputs    *inputs.Inputs
	Launcher  *launch.Launcher
	Outputs   *outputs.Dirs
	Renames   *observe.Renames
	Series    *series.Book
	// Fitness reports whether the node can start tasks; nil: it always can.
	Fitness Fitness
	// Archived reports whether a task is completely archived; nil: there is no archive.
	Archived func(archived.Task) bool
	// Restart asks for a new session. It does not block.
	Restart func()
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Tasks are the tasks of a node.
type Tasks struct {
	cfg     Config
	owner   *owner.Owner[*table.Table]
	door    *owner.Door[*table.Table]
	workers *owner.Workers[*table.Table]
	idle    chan struct{}
}

// New makes Tasks without tasks: Adopt adds the existing ones.
func New(cfg Config) *Tasks {
	ts := &Tasks{cfg: cfg, idle: make(chan struct{})}
	notes := newMetrics(cfg.Metrics)
	ts.owner, ts.door, ts.workers = owner.New(func(workers *owner.Workers[*table.Table]) *table.Table {
		w := &work{
			cfg: &ts.cfg, workers: workers, abandoned: notes.abandoned, diskFulls: notes.diskFulls, idle: ts.idle,
			occupants: &gpus.Occupants{Monitor: cfg.GPUs, TasksDir: cfg.Dir, Group: cfg.Groups, Tasks: ts.occupying},
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

// Close detaches from the tasks, which keep running, and waits for the goroutines that follow them.
func (ts *Tasks) Close() { ts.workers.Close() }

// Context returns a context that ends with Close.
func (ts *Tasks) Context() context.Context { return ts.door.Context() }

// Dir returns the directory of a task.
func (ts *Tasks) Dir(id taskid.ID) string { return filepath.Join(ts.cfg.Dir, id.Name()) }

// Reconcile brings the running tasks toward the orders, unless ctx has ended.
func (ts *Tasks) Reconcile(ctx context.Context, orders *v1.Orders) {
	ts.door.Ask(func(tb *table.Table) {
		if ctx.Err() == nil {
			tb.Reconcile(orders, time.Now())
		}
	})
}

// Launchable is called when a waiting task may be launched. It does not block: a busy owner checks this anyway.
func (ts *Tasks) Launchable() { ts.door.Poke((*table.Table).LaunchNext) }

// EndFaulty stops the tasks on GPUs that failed.
func (ts *Tasks) EndFaulty() { ts.door.Tell((*table.Table).EndFaulty) }

// Unacknowledged lists the tasks whose end the coordinators have not acknowledged.
func (ts *Tasks) Unacknowledged() (refs []*v1.TaskRef) {
	ts.door.Ask(func(tb *table.Table) { refs = tb.Unacknowledged() })
	return refs
}

// Find returns the task of a rank; adopted: the tasks of an earlier agent were adopted already. An attempt has only one
// token; if it had several, the newest would count.
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

// Ended reports whether a task has ended; known: its directory exists.
func (ts *Tasks) Ended(id taskid.ID) (ended, known bool) {
	ts.door.Ask(func(tb *table.Table) {
		var info table.Info
		info, known = tb.Get(id)
		ended = known && info.State == table.Ended
	})
	return ended, known
}

// LiveJobs lists the jobs with a task on this node that has not ended. It returns false if the agent is stopping.
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

// ToShip lists the tasks to archive.
func (ts *Tasks) ToShip() (all []logship.Task) {
	ts.door.Ask(func(tb *table.Table) {
		for _, t := range tb.All() {
			all = append(all, logship.Task{Task: archivedAs(t.ID), Dir: ts.Dir(t.ID), Ended: t.State == table.Ended})
		}
	})
	return all
}

// Shipped is called when a task is completely archived.
func (ts *Tasks) Shipped() { ts.door.Tell(func(tb *table.Table) { tb.Tidy(time.Now()) }) }

// archivedAs returns the name of a task in the archive.
func archivedAs(id taskid.ID) archived.Task {
	return archived.Task{Job: id.Job, Attempt: id.Attempt, Rank: id.Rank, Token: id.Token}
}

// occupying lists the tasks for package gpus, which finds the tasks of processes.
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

// stopPatience is how long StopAll waits after the grace period, gonePatience how long it waits for the shims to end.
const (
	stopPatience = 10 * time.Second
	gonePatience = 5 * time.Second
)

// StopAll stops all tasks and accepts no new ones. It waits until their shims are gone.
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

// Adopt takes over the tasks that an earlier agent left.
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
