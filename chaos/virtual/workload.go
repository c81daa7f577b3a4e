package virtual

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/chaos/check"
	"github.com/mindcoordinator/mind/chaos/virtual/machine"
)

// tenant owns the jobs of a workload that does not name another tenant.
const tenant = "chaos"

// Load describes what the users of a cluster do.
type Load struct {
	Tenant string
	Users  int
	// Pause is how long a user thinks between two calls, on average; default 5 s.
	Pause time.Duration
	// Run limits how long jobs run; default 2 min. Restarts is the fraction of jobs that are restartable.
	Run      time.Duration
	Restarts float64
	// Gangs is the fraction of jobs that span two nodes, Fails the fraction whose program fails, Stubborn the fraction
	// that ignores SIGTERM.
	Gangs, Fails, Stubborn float64
	// Cancels and Again are the fractions of calls that cancel a job, or retry it.
	Cancels, Again float64
	// Saves is the fraction of jobs that save checkpoints.
	Saves float64
	// LostAfter is the lost_after of the jobs; 0: the cluster's default.
	LostAfter time.Duration
}

// Job is a job that a user submitted.
type Job struct {
	Key  string // unique among all jobs; also the job's name
	ID   string // empty until the cluster has returned it
	Does machine.Behaviour
	// Restarts: the job is restartable.
	Restarts bool
	Ranks    int
	// Canceled and Retried: a user has called CancelJob or RetryJob, successfully or not.
	Canceled, Retried bool
}

// Workload simulates the users of one tenant.
type Workload struct {
	cluster *Cluster
	load    Load
	client  *client.Client
	History *check.History
	// LogsMayBeGone: nodes keep few logs, or lose them when they lose power.
	LogsMayBeGone bool

	mu       sync.Mutex
	jobs     []*Job
	answered map[string]int // number of calls by outcome
	stop     context.CancelFunc
	users    sync.WaitGroup
}

// callTime limits one call of a user.
const callTime = 20 * time.Second

// Work starts users, who work until Rest.
func (c *Cluster) Work(load Load) *Workload {
	if load.Pause == 0 {
		load.Pause = 5 * time.Second
	}
	if load.Run == 0 {
		load.Run = 2 * time.Minute
	}
	if load.Tenant == "" {
		load.Tenant = tenant
	}
	w := &Workload{cluster: c, load: load, client: c.Client(), History: &check.History{}, answered: map[string]int{}}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	for i := range load.Users {
		w.users.Go(func() { w.user(ctx, i, rand.New(rand.NewPCG(c.Seed, uint64(100*len(load.Tenant)+i)))) })
	}
	return w
}

// Rest ends the users' work, and waits for their calls.
func (w *Workload) Rest() {
	w.stop()
	w.users.Wait()
}

// Jobs returns all submitted jobs.
func (w *Workload) Jobs() []*Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*Job(nil), w.jobs...)
}

func (w *Workload) user(ctx context.Context, me int, r *rand.Rand) {
	var mine []*Job
	for n := 0; ; n++ {
		if wait.For(ctx, time.Duration(r.ExpFloat64()*float64(w.load.Pause))); ctx.Err() != nil {
			return
		}
		roll := r.Float64()
		switch {
		case len(mine) == 0 || roll < 0.3:
			mine = append(mine, w.Submit(me, w.draw(r, fmt.Sprintf("job-%d-%d", me, n))))
		case roll < 0.3+w.load.Cancels:
			w.Cancel(me, mine[r.IntN(len(mine))])
		case roll < 0.3+w.load.Cancels+w.load.Again:
			w.Retry(me, mine[r.IntN(len(mine))])
		default:
			w.Get(me, mine[len(mine)-1-r.IntN(min(5, len(mine)))])
		}
	}
}

// draw draws a job.
func (w *Workload) draw(r *rand.Rand, key string) *Job {
	j := &Job{Key: key, Ranks: 1, Does: machine.Behaviour{Run: time.Second + time.Duration(r.Int64N(int64(w.load.Run)))}}
	if r.Float64() < w.load.Gangs {
		j.Ranks = 2
	}
	if r.Float64() < w.load.Fails {
		j.Does.Exit = 1 + r.IntN(100)
	}
	j.Does.Stubborn = r.Float64() < w.load.Stubborn
	j.Does.Linger = time.Duration(r.Int64N(int64(2 * time.Second)))
	if r.Float64() < w.load.Saves {
		j.Does.Save = 5*time.Second + time.Duration(r.Int64N(int64(30*time.Second)))
	}
	j.Restarts = r.Float64() < w.load.Restarts
	return j
}

func (w *Workload) request(j *Job) *v1.SubmitJobRequest {
	grace := int32(5)
	return &v1.SubmitJobRequest{
		Name: j.Key, CommandConfig: &v1.CommandConfig{Argv: j.Does.Argv(), Cwd: "/"}, Labels: map[string]string{"key": j.Key},
		ResourceConfig: &v1.ResourceConfig{GpuCount: int32(j.Ranks), NodeCount: int32(j.Ranks)},
		SchedulingConfig: &v1.SchedulingConfig{
			Restartable: &j.Restarts, GracePeriodSeconds: &grace, LostAfterSeconds: int32(w.load.LostAfter.Seconds()),
			// Users do not wait until all nodes have registered.
			AllowPendingCapacity: true,
		},
	}
}

func (w *Workload) context(key string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	return client.WithCall(ctx, client.Call{Tenant: w.load.Tenant, IdempotencyKey: key}), cancel
}

// outcome returns what a user may conclude from an error. Only a refusal by the state machine is Refused.
func (w *Workload) outcome(action check.Action, err error) check.Outcome {
	out := check.Unknown
	code := status.Code(err)
	switch code {
	case codes.OK:
		out = check.Done
	case codes.FailedPrecondition, codes.NotFound, codes.AlreadyExists, codes.InvalidArgument:
		out = check.Refused
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered[string(action)+" "+code.String()]++
	return out
}

// Submit submits a job. It repeats the call with the same key until it is answered, or the user gives up: then it is
// unknown whether the job exists.
func (w *Workload) Submit(me int, j *Job) *Job {
	w.mu.Lock()
	w.jobs = append(w.jobs, j)
	w.mu.Unlock()
	end := w.History.Begin(me, j.Key, check.Submit)
	for range 5 {
		ctx, cancel := w.context("submit-" + j.Key)
		resp, err := w.client.Jobs().SubmitJob(ctx, w.request(j))
		cancel()
		switch w.outcome(check.Submit, err) {
		case check.Done:
			w.mu.Lock()
			j.ID = resp.GetJobId()
			w.mu.Unlock()
			end(check.Answer{})
			return j
		case check.Refused:
			w.cluster.Findings.Add("job %s was refused: %v", j.Key, err)
			end(check.Answer{Outcome: check.Refused})
			return j
		}
	}
	end(check.Answer{Outcome: check.Unknown})
	return j
}

// Get reads a job.
func (w *Workload) Get(me int, j *Job) *v1.Job {
	if j.ID == "" {
		return nil
	}
	end := w.History.Begin(me, j.Key, check.Get)
	ctx, cancel := w.context("")
	defer cancel()
	resp, err := w.client.Jobs().GetJob(ctx, &v1.GetJobRequest{JobId: j.ID})
	out := w.outcome(check.Get, err)
	end(check.Answer{Outcome: out, Phase: PhaseOf(resp.GetJob()), Revision: resp.GetJob().GetRevision()})
	return resp.GetJob()
}

// Cancel cancels a job.
func (w *Workload) Cancel(me int, j *Job) {
	if j.ID == "" {
		return
	}
	w.mu.Lock()
	j.Canceled = true
	w.mu.Unlock()
	end := w.History.Begin(me, j.Key, check.Cancel)
	ctx, cancel := w.context("")
	defer cancel()
	_, err := w.client.Jobs().CancelJob(ctx, &v1.CancelJobRequest{JobId: j.ID})
	end(check.Answer{Outcome: w.outcome(check.Cancel, err)})
}

// Retry starts a job again.
func (w *Workload) Retry(me int, j *Job) {
	if j.ID == "" {
		return
	}
	w.mu.Lock()
	j.Retried = true
	w.mu.Unlock()
	end := w.History.Begin(me, j.Key, check.Retry)
	ctx, cancel := w.context("")
	defer cancel()
	_, err := w.client.Jobs().RetryJob(ctx, &v1.RetryJobRequest{JobId: j.ID})
	end(check.Answer{Outcome: w.outcome(check.Retry, err)})
}

// PhaseOf returns the phase of a job as far as a client can tell.
func PhaseOf(j *v1.Job) check.Phase {
	switch j.GetState() {
	case v1.JobState_UNSPECIFIED:
		return check.Absent
	case v1.JobState_SUCCEEDED:
		return check.Succeeded
	case v1.JobState_FAILED, v1.JobState_LOST, v1.JobState_PREEMPTED:
		// The last two are final here: a job that is restarted is pending again at once.
		return check.Failed
	case v1.JobState_CANCELED:
		return check.Canceled
	}
	if j.GetStopping() == v1.StopReason_CANCEL {
		return check.Canceling
	}
	return check.Live
}

// Answers returns the numbers of calls by outcome.
func (w *Workload) Answers() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprint(w.answered)
}
