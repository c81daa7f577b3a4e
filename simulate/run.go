package simulate

import (
	"container/heap"
	"context"
	"fmt"
	"iter"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/predict"
	"github.com/mindcoordinator/mind/simulate/trace"
)

const (
	// restart is what each restart of a preempted job takes; it also loses its work since its newest checkpoint, of which it
	// saves one after each interval of work.
	restart  = int64(5 * time.Minute)
	interval = int64(30 * time.Minute)
	// origin is when traces begin, in Unix nanoseconds: 0 means never in the rows of jobs.
	origin = int64(time.Hour)
)

// run is one simulation.
type run struct {
	cluster *cluster
	model   *predict.Model
	decided int64 // when preemption was last decided
	jobs    []*job
	byID    map[ident.Job]*job
	running map[ident.Job]*job
	ends    ends
	seen    seen
}

// job is a job of the trace, with the row that the scheduler sees.
type job struct {
	row   *work.Job
	takes int64
	done  int64 // work that is saved, or that the current attempt began with
	pays  int64 // what the current attempt loses at its start
	ended int64
}

// end is when an attempt ends unless it is preempted.
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

// Run replays a trace: each job arrives when it did, and runs as long as it did. All may be preempted, where the policy
// says so: a job that is preempted has lost its work since its newest checkpoint (one every 30 minutes of work), and its
// next attempt begins with 5 minutes that are lost, too. Progress is told how many jobs have ended, now and then.
func Run(ctx context.Context, nodes []*work.Node, jobs []trace.Job, policy work.Policy, progress func(ended int)) (Measures, error) {
	r := newRun(nodes, jobs, policy)
	for i := range r.jobs {
		if err := r.couldRun(r.jobs[i], jobs[i].ID); err != nil {
			return Measures{}, err
		}
	}
	if err := r.all(ctx, progress); err != nil {
		return Measures{}, err
	}
	return r.measures(), nil
}

// all runs from the first arrival to the last end.
func (r *run) all(ctx context.Context, progress func(ended int)) error {
	next, ended := 0, 0
	for steps := 0; next < len(r.jobs) || len(r.ends) > 0; steps++ {
		if steps%256 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			progress(ended)
		}
		r.seen.pass(r.comes(next)-r.cluster.now, r.cluster.used)
		r.cluster.now = r.comes(next)
		ended += r.finish()
		for ; next < len(r.jobs) && r.jobs[next].row.CreatedAt <= r.cluster.now; next++ {
			r.cluster.wait(r.jobs[next].row)
		}
		if err := r.plan(); err != nil {
			return err
		}
		if len(r.ends) == 0 && next == len(r.jobs) && r.cluster.waiting > 0 {
			return fmt.Errorf("%d jobs wait on an empty cluster", r.cluster.waiting)
		}
	}
	return nil
}

func newRun(nodes []*work.Node, jobs []trace.Job, policy work.Policy) *run {
	r := &run{
		cluster: newCluster(nodes), model: &predict.Model{},
		byID: map[ident.Job]*job{}, running: map[ident.Job]*job{},
	}
	r.cluster.policy, r.cluster.now = policy, origin
	for i := range jobs {
		t := &jobs[i]
		j := &job{takes: int64(t.Takes), row: &work.Job{
			ID: jobID(i), Tenant: "trace", User: t.User, Queue: "default", Priority: 5, Shape: t.Shape, Preemptible: true,
			State: v1.JobState_QUEUED, CreatedAt: origin + int64(t.Submit), MaxRuntime: int64(t.Limit),
		}}
		r.jobs = append(r.jobs, j)
		r.byID[j.row.ID] = j
		r.cluster.limited = r.cluster.limited || t.Limit > 0
		r.cluster.rows[j.row.ID] = j.row
	}
	return r
}

// couldRun refuses a job that would wait for ever.
func (r *run) couldRun(j *job, name string) error {
	fits := 0
	for _, n := range r.cluster.nodes {
		if n.CouldHold(j.row.Shape) {
			fits++
		}
	}
	if need := max(1, int(j.row.Shape.Nodes)); fits < need {
		return fmt.Errorf("job %q needs %d nodes with %d GPUs, and %d nodes of the inventory could hold a part of it", name, need, j.row.Shape.GPUs, fits)
	}
	return nil
}

// comes is when something happens next.
func (r *run) comes(next int) int64 {
	for len(r.ends) > 0 && r.ends[0].attempt != r.ends[0].job.row.Attempt {
		heap.Pop(&r.ends) // It was preempted.
	}
	var at int64
	switch {
	case len(r.ends) == 0:
		return r.jobs[next].row.CreatedAt
	case next == len(r.jobs):
		at = r.ends[0].at
	default:
		at = min(r.ends[0].at, r.jobs[next].row.CreatedAt)
	}
	if r.cluster.policy.Preemption.Enabled && r.cluster.waiting > 0 {
		at = min(at, max(r.cluster.now, r.decided+r.cluster.policy.Preemption.Every))
	}
	return at
}

// finish ends the attempts whose time has come.
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
		r.model.Learn(j.row, scheduler.Attained(j.row, r.cluster.now))
		ended++
	}
	return ended
}

// plan asks the scheduler, and does what it says.
func (r *run) plan() error {
	opts := scheduler.Options{PerCommand: 1 << 16, Quiet: true, Model: r.model}
	if r.cluster.policy.Preemption.Enabled && r.cluster.waiting > 0 && r.cluster.now >= r.decided+r.cluster.policy.Preemption.Every {
		r.decided = r.cluster.now
		opts.Running = r.attempts()
	}
	result, err := r.backfill(opts)
	if err != nil || len(result.Exchange) == 0 {
		return err
	}
	for _, p := range result.Exchange {
		for _, id := range p.Victims {
			r.preempt(r.byID[id])
		}
		if err := r.start(p.For); err != nil {
			return err
		}
	}
	opts.Running = nil
	_, err = r.backfill(opts)
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

// preempt stops a job, which waits again from then on.
func (r *run) preempt(j *job) {
	worked := max(r.cluster.now-j.row.StartedAt-j.pays, 0)
	lost := worked % interval
	j.done += worked - lost
	r.seen.preempted(lost+restart, j.row.Shape.GPUMilli())
	r.cluster.release(j.row)
	delete(r.running, j.row.ID)
	j.row.Past = append(j.row.Past, work.PastAttempt{Attempt: j.row.Attempt, StartedAt: j.row.StartedAt, EndedAt: r.cluster.now})
	j.row.Retries.Preempted++
	j.row.State, j.row.StartedAt = v1.JobState_QUEUED, 0
	r.cluster.wait(j.row)
}

// attempts are those that run, in the order of the trace.
func (r *run) attempts() iter.Seq[scheduler.Running] {
	return func(yield func(scheduler.Running) bool) {
		for _, j := range r.jobs {
			if r.running[j.row.ID] == nil {
				continue
			}
			x := scheduler.Running{Job: j.row}
			if worked := r.cluster.now - j.row.StartedAt - j.pays; worked >= interval {
				x.SavedAt = r.cluster.now - worked%interval
			}
			if !yield(x) {
				return
			}
		}
	}
}
