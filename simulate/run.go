package simulate

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/predict"
	"github.com/mindcoordinator/mind/scheduler/preempt"
	"github.com/mindcoordinator/mind/simulate/trace"
)

const (
	// restart is the time that each restart of a preempted job takes, and interval is the work between two of its
	// checkpoints.
	restart  = int64(5 * time.Minute)
	interval = int64(30 * time.Minute)
	// origin is the time at which a trace without a beginning begins, in Unix nanoseconds. It is not 0, because a time
	// of 0 in the row of a job means never.
	origin = int64(time.Hour)
)

// Cluster is the cluster on which jobs run.
type Cluster struct {
	Nodes []*work.Node
	// FairShare says that users have fair shares, by the tree of queues and by their past use, and that quotas and
	// limits apply. Without it all jobs count as the jobs of one user.
	FairShare bool
	Queues    []*work.Queue
	Quotas    []*work.Quota
	// Begin is the time at which the trace begins; the zero time: some fixed time.
	Begin time.Time
	// Windows are the maintenances and reservations. The scheduler knows each from the time at which it was created.
	Windows []*windows.Window
}

// run is one simulation.
type run struct {
	cluster *cluster
	model   *predict.Model
	decided int64 // time of the last decision about preemption
	jobs    []*job
	byID    map[ident.Job]*job
	running map[ident.Job]*job
	ends    ends
	seen    seen
	origin  int64
	// yields: jobs may be preempted for a higher priority, or for what a queue is guaranteed.
	yields bool
	// tooLarge are the shapes that the nodes could not hold.
	tooLarge map[work.Shape]int
}

// job is a job of the trace, with the row that the scheduler sees.
type job struct {
	at    int // its index in the trace
	row   *work.Job
	takes int64
	came  int64 // when it could have started first
	// before counts the jobs that it still waits for, and then lists the jobs that wait for it.
	before int
	then   []*job
	done   int64 // work that was saved before the current attempt
	pays   int64 // the time that the current attempt loses at its start
	ended  int64
}

// end is the time at which an attempt ends unless it is preempted.
type end struct {
	at      int64
	job     *job
	attempt uint32
}

type ends []end

func (e ends) Len() int { return len(e) }
func (e ends) Less(a, b int) bool {
	return e[a].at < e[b].at || e[a].at == e[b].at && e[a].job.row.ID < e[b].job.row.ID
}
func (e ends) Swap(a, b int) { e[a], e[b] = e[b], e[a] }
func (e *ends) Push(x any)   { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// Run replays a trace: each job arrives when it arrived there, and runs as long. If the policy says so, jobs are
// preempted: a preempted job loses its work since its newest checkpoint (one after each 30 minutes of work), and the
// first 5 minutes of its next attempt. Run calls progress now and then with the number of jobs that have ended.
//
// Jobs that the nodes could not hold are dropped, with those that wait for them; if they are all such, Run returns an error. With
// fair share, jobs that a limit never lets run are dropped in the end: a quota may have been higher when they ran.
func Run(ctx context.Context, on Cluster, jobs []trace.Job, policy policy.Policy, progress func(ended int)) (Measures, error) {
	if n, why := on.TooLarge(jobs); n > 0 && n == len(jobs) {
		return Measures{}, errors.New(why)
	}
	r := newRun(on, jobs, policy)
	if err := r.all(ctx, progress); err != nil {
		return Measures{}, err
	}
	return r.measures(), nil
}

// TooLarge returns how many of the jobs the nodes could not hold if they were empty, and what the first of these lacks.
func (on Cluster) TooLarge(jobs []trace.Job) (n int, why string) {
	shapes := on.cannotHold(jobs)
	for i := range jobs {
		fit, too := shapes[jobs[i].Shape]
		if !too {
			continue
		}
		if n++; n == 1 {
			shape := jobs[i].Shape
			why = fmt.Sprintf("job %q needs %d nodes with %d GPUs, and %d nodes of the inventory could hold a part of it",
				jobs[i].ID, max(1, int(shape.Nodes)), shape.GPUs, fit)
		}
	}
	return n, why
}

// cannotHold returns the shapes of jobs that the nodes could not hold, each with how many nodes could hold a part of it.
func (on Cluster) cannotHold(jobs []trace.Job) map[work.Shape]int {
	shapes, seen := map[work.Shape]int{}, map[work.Shape]bool{}
	for i := range jobs {
		shape := jobs[i].Shape
		if seen[shape] {
			continue
		}
		seen[shape] = true
		if fit, enough := on.CouldRun(shape); !enough {
			shapes[shape] = fit
		}
	}
	return shapes
}

// all simulates everything from the first arrival to the last end.
func (r *run) all(ctx context.Context, progress func(ended int)) error {
	next, ended := 0, 0
	for steps := 0; next < len(r.jobs) || len(r.ends) > 0 || r.cluster.waiting > 0 && r.cluster.turnsAt() != 0; steps++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if steps%256 == 0 {
			progress(ended)
		}
		at := r.comes(next)
		r.seen.pass(at-r.cluster.now, r.cluster.used)
		r.cluster.now = at
		ended += r.finish()
		r.turn()
		for ; next < len(r.jobs) && r.jobs[next].row.CreatedAt <= r.cluster.now; next++ {
			r.arrive(r.jobs[next])
		}
		if err := r.plan(ctx); err != nil {
			return err
		}
		if len(r.running) == 0 && next == len(r.jobs) && r.cluster.waiting > 0 && r.cluster.turnsAt() == 0 {
			if err := r.giveUp(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// arrive puts a job into its lane, unless it depends on jobs that have not ended, or no nodes could hold it.
func (r *run) arrive(j *job) {
	if _, too := r.tooLarge[j.row.Shape]; too {
		return
	}
	if j.came = r.cluster.now; j.before == 0 {
		r.cluster.wait(j.row)
	}
}

// giveUp handles jobs that wait on an empty cluster. It plans at the beginning of the next month, when quotas of GPU
// hours begin again, and drops the jobs if none of them starts then.
func (r *run) giveUp(ctx context.Context) error {
	if !r.cluster.fair {
		return fmt.Errorf("%d jobs wait on an empty cluster", r.cluster.waiting)
	}
	end := r.cluster.monthEnds()
	if end == 0 {
		return nil
	}
	was := r.cluster.now
	r.cluster.now = end
	if err := r.plan(ctx); err != nil {
		return err
	}
	if len(r.ends) == 0 {
		r.cluster.now = was // no job started
	}
	return nil
}

func newRun(on Cluster, jobs []trace.Job, policy policy.Policy) *run {
	r := &run{
		cluster: newCluster(on), model: &predict.Model{}, origin: origin,
		byID: make(map[ident.Job]*job, len(jobs)), tooLarge: on.cannotHold(jobs),
	}
	r.running = r.cluster.active
	if !on.Begin.IsZero() {
		r.origin = on.Begin.UnixNano()
	}
	r.cluster.policy, r.cluster.now = policy, r.origin
	named, arrays := make(map[string]*job, len(jobs)), map[string]*array{}
	for i := range jobs {
		t := &jobs[i]
		j := &job{at: i, takes: int64(t.Takes), row: rowOf(t, i, r.origin)}
		if t.MaxParallel > 0 {
			r.cluster.bound(t, i, j.row, arrays)
		}
		if len(on.Windows) > 0 {
			j.row.Term = work.TermOf(j.row)
		}
		j.row.LastCheckpoint = ident.Checkpoint(j.row.ID)
		r.jobs = append(r.jobs, j)
		r.byID[j.row.ID], named[t.ID] = j, j
		r.cluster.limited = r.cluster.limited || t.Limit > 0
		r.cluster.rows[j.row.ID] = j.row
	}
	r.yields = yields(on, r.jobs)
	for i := range jobs {
		for _, name := range jobs[i].After {
			if first := named[name]; first != nil && first.at < i {
				first.then = append(first.then, r.jobs[i])
				r.jobs[i].before++
			}
		}
	}
	return r
}

// rowOf returns the row of the nth job of a trace.
func rowOf(t *trace.Job, n int, begin int64) *work.Job {
	row := &work.Job{
		ID: jobID(n), Tenant: "trace", User: t.User, Queue: work.DefaultQueue, Priority: 5, Shape: t.Shape, Preemptible: true,
		State: v1.JobState_QUEUED, CreatedAt: begin + int64(t.Submit), MaxRuntime: int64(t.Limit),
	}
	if t.Tenant != "" {
		row.Tenant, row.Queue, row.Name, row.Priority, row.Preemptible = t.Tenant, t.Queue, t.Name, t.Priority, t.Preemptible
	}
	row.Term = work.TermOf(row)
	return row
}

// CouldRun returns how many nodes could each hold a part of a job of this shape, and whether these are enough for it to
// run.
func (on Cluster) CouldRun(shape work.Shape) (fit int, enough bool) {
	for _, n := range on.Nodes {
		if n.CouldHold(shape) {
			fit++
		}
	}
	return fit, fit >= max(1, int(shape.Nodes))
}

// comes returns the time of the next event: an arrival, an end, a decision about preemption, a turn of a window, or a new month.
func (r *run) comes(next int) int64 {
	for len(r.ends) > 0 && r.ends[0].attempt != r.ends[0].job.row.Attempt {
		heap.Pop(&r.ends) // this attempt was preempted
	}
	at := int64(math.MaxInt64)
	if len(r.ends) > 0 {
		at = r.ends[0].at
	}
	if next < len(r.jobs) {
		at = min(at, r.jobs[next].row.CreatedAt)
	}
	if turn := r.cluster.turnsAt(); turn != 0 {
		at = min(at, max(r.cluster.now, turn))
	}
	if free := r.unprotected(); free != 0 && r.cluster.waiting > 0 {
		at = min(at, free)
	}
	if len(r.ends) > 0 && r.cluster.policy.Preemption.Enabled && r.cluster.waiting > 0 {
		at = min(at, max(r.cluster.now, r.decided+r.cluster.policy.Preemption.Every))
	}
	if month := r.cluster.monthEnds(); month != 0 && r.cluster.waiting > 0 {
		at = min(at, month)
	}
	return at
}

// finish ends the attempts that end at or before the current time, and returns how many did.
func (r *run) finish() (ended int) {
	for len(r.ends) > 0 && r.ends[0].at <= r.cluster.now {
		e := heap.Pop(&r.ends).(end)
		j := e.job
		if e.attempt != j.row.Attempt || r.running[j.row.ID] == nil {
			continue
		}
		r.cluster.release(j.row)
		delete(r.running, j.row.ID)
		j.row.State, j.row.FinishedAt, j.ended = v1.JobState_SUCCEEDED, r.cluster.now, r.cluster.now
		r.model.Learn(j.row, order.Attained(j.row, r.cluster.now))
		for _, next := range j.then {
			if next.before--; next.before == 0 && next.came != 0 {
				next.came = r.cluster.now
				r.cluster.wait(next.row)
			}
		}
		ended++
	}
	return ended
}

// plan runs the scheduler and carries out its decisions.
func (r *run) plan(ctx context.Context) error {
	opts := scheduler.Options{PerCommand: 1 << 16, Quiet: true, Model: r.model}
	if r.yields {
		if err := r.makeRoom(ctx, opts); err != nil {
			return err
		}
	}
	if r.cluster.policy.Preemption.Enabled && r.cluster.waiting > 0 && r.cluster.now >= r.decided+r.cluster.policy.Preemption.Every {
		r.decided = r.cluster.now
		opts.Running = r.attempts()
	}
	result, err := r.backfill(ctx, opts)
	if err != nil || len(result.OrderPreemptions) == 0 {
		return err
	}
	for _, p := range result.OrderPreemptions {
		for _, id := range p.Victims {
			r.preempt(r.byID[id])
		}
		if err := r.start(p.For); err != nil {
			return err
		}
	}
	opts.Running = nil
	_, err = r.backfill(ctx, opts)
	return err
}

func (r *run) place(result scheduler.Result) error {
	for _, c := range result.Commands {
		for _, p := range c.Placements {
			if err := r.start(p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) start(p work.Placement) error {
	j := r.byID[p.Job]
	if err := r.cluster.leave(j.row); err != nil {
		return err
	}
	if err := r.cluster.hold(j.row, p.Tasks); err != nil {
		return err
	}
	r.cluster.started(p.Job)
	j.row.Attempt, j.row.StartedAt, j.row.State, j.pays = p.Attempt, r.cluster.now, v1.JobState_RUNNING, 0
	if p.Attempt > 1 {
		j.pays = restart
	}
	r.running[p.Job] = j
	heap.Push(&r.ends, end{at: r.cluster.now + j.pays + j.takes - j.done, job: j, attempt: p.Attempt})
	return nil
}

// preempt stops a job for another one. It waits again.
func (r *run) preempt(j *job) {
	r.stop(j)
	j.row.Retries.Preempted++
}

// stop stops a job, which then waits again. Its work since its newest checkpoint is lost.
func (r *run) stop(j *job) {
	worked := max(r.cluster.now-j.row.StartedAt-j.pays, 0)
	lost := worked % interval
	j.done += worked - lost
	r.seen.preempted(lost+restart, j.row.Shape.GPUMilli())
	r.cluster.release(j.row)
	delete(r.running, j.row.ID)
	j.row.Past = append(j.row.Past, work.PastAttempt{Attempt: j.row.Attempt, StartedAt: j.row.StartedAt, EndedAt: r.cluster.now})
	j.row.State, j.row.StartedAt = v1.JobState_QUEUED, 0
	r.cluster.wait(j.row)
}

// savedAt returns when the running attempt has saved its newest checkpoint; 0: it has saved none.
func (j *job) savedAt(now int64) int64 {
	worked := now - j.row.StartedAt - j.pays
	if worked < interval {
		return 0
	}
	return now - worked%interval
}

// attempts yields the running jobs in the order of the trace.
func (r *run) attempts() iter.Seq[preempt.Running] {
	return func(yield func(preempt.Running) bool) {
		running := slices.SortedFunc(maps.Values(r.running), func(a, b *job) int { return cmp.Compare(a.at, b.at) })
		for _, j := range running {
			if !yield(preempt.Running{Job: j.row, SavedAt: j.savedAt(r.cluster.now)}) {
				return
			}
		}
	}
}
