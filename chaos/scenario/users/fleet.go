package users

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/workload"
)

// Steady configures jobs that run throughout an attack and end after it, each with its own exit code.
type Steady struct {
	// Jobs is the number of jobs without a retry: they must run once, to their end.
	Jobs int
	// Replaceable is the number of jobs that may be run again elsewhere when their node is lost, but never twice at the
	// same time.
	Replaceable int
	// Gangs is the number of replaceable gangs of two nodes.
	Gangs int
	// LostAfter is the lost_after of the replaceable jobs; 0: the default of Mind.
	LostAfter time.Duration
	// Every is the time between two lines of a job's log; default 200 ms.
	Every time.Duration
	// Short is the number of jobs without a retry that end during the attack, when the scenario says so.
	Short int
	// Counted makes jobs restart only by max_retries, for versions of mind without free restarts.
	Counted bool
}

// groupShort is the group of short jobs, which a scenario can end separately.
const groupShort = "short"

const gangNodes = 2

// Job is a job of a Fleet.
type Job struct {
	ID, key string
	spec    workload.Spec
	ranks   int
	// Replaceable: the job may be run again elsewhere.
	Replaceable bool
	// forgotten: the entries that placed it were lost. It is placed again, with the same attempt numbers.
	forgotten bool
	// followed are the lines that a follower of its log got, from the first line on.
	followed []string
}

func (j *Job) String() string { return j.key + "=" + j.ID }

// Fleet manages the steady jobs of one attack.
type Fleet struct {
	Steady
	// Run is the name of the attack, with which all names of jobs begin; Dir is the folder of the evidence.
	Run, Dir string
	All      []*Job
	rest     *procs.REST
	mind     string
	output   string         // of checkpoints, for all nodes
	free     map[string]int // free GPUs by node before the attack
	readers  sync.WaitGroup
	errors   atomic.Int64
}

// NewFleet makes the jobs of an attack. rest is a client of the cluster, mind the program of the jobs, and scratch the
// folder for their evidence.
func NewFleet(rest *procs.REST, mind, scratch, run string, s Steady) *Fleet {
	return &Fleet{
		Steady: s, rest: rest, mind: mind, Run: run, free: map[string]int{},
		Dir: filepath.Join(scratch, run, "evidence"), output: filepath.Join(scratch, run, "outputs"),
	}
}

// Start submits the jobs and waits until all of them run.
func (f *Fleet) Start(ctx context.Context, followers int) error {
	nodes, err := f.rest.Nodes(ctx)
	if err != nil {
		return err
	}
	free := 0
	for _, n := range nodes {
		f.free[n.ID] = n.GPUsFree
		free += n.GPUsFree
	}
	free -= 2 // for the short jobs of the clients
	for i, kind := range f.mixed() {
		j := &Job{key: fmt.Sprintf("%s-steady-%d", f.Run, i), ranks: 1}
		j.spec = workload.Spec{Dir: f.Dir, Every: f.Every, CheckpointEvery: 10, Exit: []int{0, 7, 13}[i%3]}
		switch kind {
		case short:
			j.spec.Group = f.Run + groupShort
		case replaceable:
			j.Replaceable = true
		case gang:
			// The others are stopped when the first rank fails.
			j.Replaceable, j.ranks, j.spec.Exit = true, gangNodes, 0
		}
		gpus := 0
		if free >= j.ranks {
			gpus = j.ranks
			free -= gpus
		}
		if j.ID, err = submitUntilKnown(ctx, f.rest, j.key, f.request(j, gpus), &f.errors); err != nil {
			return fmt.Errorf("submitting %s: %w", j.key, err)
		}
		f.All = append(f.All, j)
	}
	for _, j := range f.All {
		if err := f.AwaitRunning(ctx, j, 1); err != nil {
			return err
		}
	}
	for _, j := range f.All[:min(followers, len(f.All))] {
		if !j.Replaceable {
			f.readers.Go(func() {
				_ = f.rest.Logs(ctx, j.ID, "follow=true", func(l procs.LogLine) { j.followed = append(j.followed, l.Message) })
			})
		}
	}
	return nil
}

// Submit submits another job of the attack, until it is acknowledged, and returns its id.
func (f *Fleet) Submit(ctx context.Context, name string, job any) (string, error) {
	return submitUntilKnown(ctx, f.rest, f.Run+"-"+name, job, &f.errors)
}

// The kinds of steady jobs.
const (
	plain = iota
	short
	replaceable
	gang
)

// mixed returns the kinds in an order in which each node gets some of each, however the jobs are packed.
func (f *Fleet) mixed() []int {
	var all []int
	left := []int{plain: f.Jobs, short: f.Short, replaceable: f.Replaceable, gang: f.Gangs}
	for more := true; more; {
		more = false
		for kind := range left {
			if left[kind] > 0 {
				left[kind]--
				all = append(all, kind)
				more = true
			}
		}
	}
	return all
}

func (f *Fleet) request(j *Job, gpus int) map[string]any {
	job := procs.Command(j.key, gpus, j.spec.Argv(f.mind)...)
	resources := map[string]any{"gpu_count": gpus, "node_count": j.ranks}
	if gpus == 0 {
		resources["cpu_count"] = 1
	}
	job["resource_config"] = resources
	job["output_config"] = map[string]any{"output_dir": f.output}
	scheduling := map[string]any{"grace_period_seconds": 2}
	switch {
	case !f.Counted:
		scheduling["restartable"] = j.Replaceable
	case j.Replaceable:
		scheduling["max_retries"] = 3
	}
	if j.Replaceable {
		scheduling["retry_on"] = []string{"node_lost"}
		if f.LostAfter > 0 {
			scheduling["lost_after_seconds"] = int(f.LostAfter.Seconds())
		}
	}
	job["scheduling_config"] = scheduling
	return job
}

// Late submits jobs that start at a given time and no earlier, and whose attempts must never overlap.
func (f *Fleet) Late(ctx context.Context, round, n int, at time.Time) error {
	for i := range n {
		j := &Job{key: fmt.Sprintf("%s-late-%d-%d", f.Run, round, i), ranks: 1, Replaceable: true, forgotten: true}
		j.spec = workload.Spec{Dir: f.Dir, Every: f.Every, CheckpointEvery: 10, Exit: 7}
		request := f.request(j, 0)
		scheduling := request["scheduling_config"].(map[string]any)
		scheduling["not_before"], scheduling["lost_after_seconds"] = at.UTC().Format(time.RFC3339Nano), 10
		var err error
		if j.ID, err = submitUntilKnown(ctx, f.rest, j.key, request, &f.errors); err != nil {
			return fmt.Errorf("submitting %s: %w", j.key, err)
		}
		f.All = append(f.All, j)
	}
	return nil
}

// AwaitLife waits until a process of a job has recorded that it is alive.
func (f *Fleet) AwaitLife(ctx context.Context, j *Job) error {
	for {
		lives, err := workload.Lives(f.Dir, j.ID)
		if err != nil || len(lives) > 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for a process of %s: %w", j, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// AwaitRunning waits until an attempt (or a later one) of the job runs, according to both the cluster and the records
// of its processes.
func (f *Fleet) AwaitRunning(ctx context.Context, j *Job, attempt int) error {
	for {
		seen, err := f.rest.Job(ctx, j.ID)
		if err == nil && seen.Ended() {
			return fmt.Errorf("%s is to run through the attack, and is %s: %s", j, seen.State, seen.ErrorMessage)
		}
		if err == nil && seen.State == "RUNNING" && seen.Attempt >= attempt {
			lives, err := workload.Lives(f.Dir, j.ID)
			if err != nil {
				return err
			}
			ranks := 0
			for _, l := range lives {
				if l.Attempt == seen.Attempt {
					ranks++
				}
			}
			if ranks >= j.ranks {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for attempt %d of %s to run, which is %s in attempt %d (%s): %w",
				attempt, j, seen.State, seen.Attempt, seen.Reason, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// On lists the jobs that have a task on a node.
func (f *Fleet) On(ctx context.Context, node string) ([]*Job, error) {
	var found []*Job
	for _, j := range f.All {
		seen, err := f.rest.Job(ctx, j.ID)
		if err != nil {
			return nil, err
		}
		for _, n := range seen.Nodes {
			if n == node && !seen.Ended() {
				found = append(found, j)
				break
			}
		}
	}
	return found, nil
}

// Busiest returns the node with the most jobs of the fleet, of which replaceable ones count first.
func (f *Fleet) Busiest(ctx context.Context) (string, error) {
	count := map[string]int{}
	best := ""
	for _, j := range f.All {
		seen, err := f.rest.Job(ctx, j.ID)
		if err != nil {
			return "", err
		}
		weight := 1
		if j.Replaceable {
			weight = len(f.All)
		}
		for _, n := range seen.Nodes {
			if count[n] += weight; best == "" || count[n] > count[best] {
				best = n
			}
		}
	}
	return best, nil
}

// Finish makes all jobs end.
func (f *Fleet) Finish() error { return workload.Finish(f.Dir, "") }

// FinishShort makes the short jobs end.
func (f *Fleet) FinishShort() error { return workload.Finish(f.Dir, f.Run+groupShort) }
