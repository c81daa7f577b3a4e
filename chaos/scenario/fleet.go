package scenario

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

// Steady are jobs that run all through an attack and end after it, each with an exit code of its own.
type Steady struct {
	// Jobs without a retry: whatever happens, they run once, to their end.
	Jobs int
	// Replaceable jobs may be run again elsewhere when their node is lost, and never twice at a time.
	Replaceable int
	// Gangs of two nodes, replaceable.
	Gangs int
	// LostAfter of the replaceable ones; 0: the default of Mind.
	LostAfter time.Duration
	// Every is the time between two lines of a job's log; default 200 ms.
	Every time.Duration
	// Short jobs are not restartable either, and end while the attack goes on: as soon as the scenario says so.
	Short int
}

// The groups of jobs that a scenario can end by themselves.
const groupShort = "short"

const gangNodes = 2

type steadyJob struct {
	id, key     string
	spec        workload.Spec
	ranks       int
	replaceable bool
	// forgotten: it was placed by a part of the log that is lost. It is placed again, and the numbers of its attempts with it.
	forgotten bool
	// followed is what a follower of its log was given, from the first line on.
	followed []string
}

func (j *steadyJob) String() string { return j.key + "=" + j.id }

type fleet struct {
	Steady
	rest    *procs.REST
	mind    string
	dir     string // of the evidence
	output  string // of checkpoints, for all nodes
	run     string
	free    map[string]int // GPUs, before
	jobs    []*steadyJob
	readers sync.WaitGroup
	errors  atomic.Int64
}

func newFleet(a Arena, rest *procs.REST, run string, s Steady) *fleet {
	return &fleet{
		Steady: s, rest: rest, mind: a.Mind, run: run, free: map[string]int{},
		dir: filepath.Join(a.Scratch, run, "evidence"), output: filepath.Join(a.Scratch, run, "outputs"),
	}
}

// start submits the jobs and waits until all of them run.
func (f *fleet) start(ctx context.Context, followers int) error {
	nodes, err := f.rest.Nodes(ctx)
	if err != nil {
		return err
	}
	free := 0
	for _, n := range nodes {
		f.free[n.ID] = n.GPUsFree
		free += n.GPUsFree
	}
	free -= 2 // for the short jobs that come and go
	for i, kind := range f.mixed() {
		j := &steadyJob{key: fmt.Sprintf("%s-steady-%d", f.run, i), ranks: 1}
		j.spec = workload.Spec{Dir: f.dir, Every: f.Every, CheckpointEvery: 10, Exit: []int{0, 7, 13}[i%3]}
		switch kind {
		case short:
			j.spec.Group = f.run + groupShort
		case replaceable:
			j.replaceable = true
		case gang:
			// The first rank that fails has the others stopped.
			j.replaceable, j.ranks, j.spec.Exit = true, gangNodes, 0
		}
		gpus := 0
		if free >= j.ranks {
			gpus = j.ranks
			free -= gpus
		}
		if j.id, err = submitUntilKnown(ctx, f.rest, j.key, f.request(j, gpus), &f.errors); err != nil {
			return fmt.Errorf("submitting %s: %w", j.key, err)
		}
		f.jobs = append(f.jobs, j)
	}
	for _, j := range f.jobs {
		if err := f.awaitRunning(ctx, j, 1); err != nil {
			return err
		}
	}
	for _, j := range f.jobs[:min(followers, len(f.jobs))] {
		if !j.replaceable {
			f.readers.Go(func() {
				_ = f.rest.Logs(ctx, j.id, "follow=true", func(l procs.LogLine) { j.followed = append(j.followed, l.Message) })
			})
		}
	}
	return nil
}

// The kinds of steady jobs.
const (
	plain = iota
	short
	replaceable
	gang
)

// mixed lists the kinds so that each node gets some of each, however the jobs are packed.
func (f *fleet) mixed() []int {
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

func (f *fleet) request(j *steadyJob, gpus int) map[string]any {
	job := procs.Command(j.key, gpus, j.spec.Argv(f.mind)...)
	resources := map[string]any{"gpu_count": gpus, "node_count": j.ranks}
	if gpus == 0 {
		resources["cpu_count"] = 1
	}
	job["resource_config"] = resources
	job["output_config"] = map[string]any{"output_dir": f.output}
	scheduling := map[string]any{"grace_period_seconds": 2, "restartable": j.replaceable}
	if j.replaceable {
		scheduling["retry_on"] = []string{"node_lost"}
		if f.LostAfter > 0 {
			scheduling["lost_after_seconds"] = int(f.LostAfter.Seconds())
		}
	}
	job["scheduling_config"] = scheduling
	return job
}

// late submits jobs that start at a given time and no earlier, and that no other attempt may ever run beside.
func (f *fleet) late(ctx context.Context, round, n int, at time.Time) error {
	for i := range n {
		j := &steadyJob{key: fmt.Sprintf("%s-late-%d-%d", f.run, round, i), ranks: 1, replaceable: true, forgotten: true}
		j.spec = workload.Spec{Dir: f.dir, Every: f.Every, CheckpointEvery: 10, Exit: 7}
		request := f.request(j, 0)
		scheduling := request["scheduling_config"].(map[string]any)
		scheduling["not_before"], scheduling["lost_after_seconds"] = at.UTC().Format(time.RFC3339Nano), 10
		var err error
		if j.id, err = submitUntilKnown(ctx, f.rest, j.key, request, &f.errors); err != nil {
			return fmt.Errorf("submitting %s: %w", j.key, err)
		}
		f.jobs = append(f.jobs, j)
	}
	return nil
}

// awaitLife waits until a process of a job has said that it lives.
func (f *fleet) awaitLife(ctx context.Context, j *steadyJob) error {
	for {
		lives, err := workload.Lives(f.dir, j.id)
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

// awaitRunning waits until an attempt (or a later one) of the job runs, as the cluster says and as its processes do.
func (f *fleet) awaitRunning(ctx context.Context, j *steadyJob, attempt int) error {
	for {
		seen, err := f.rest.Job(ctx, j.id)
		if err == nil && seen.Ended() {
			return fmt.Errorf("%s is to run through the attack, and is %s: %s", j, seen.State, seen.ErrorMessage)
		}
		if err == nil && seen.State == "RUNNING" && seen.Attempt >= attempt {
			lives, err := workload.Lives(f.dir, j.id)
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

// on lists the jobs that have a task on a node.
func (f *fleet) on(ctx context.Context, node string) ([]*steadyJob, error) {
	var found []*steadyJob
	for _, j := range f.jobs {
		seen, err := f.rest.Job(ctx, j.id)
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

// busiest is the node with the most jobs of the fleet, replaceable ones first.
func (f *fleet) busiest(ctx context.Context) (string, error) {
	count := map[string]int{}
	best := ""
	for _, j := range f.jobs {
		seen, err := f.rest.Job(ctx, j.id)
		if err != nil {
			return "", err
		}
		weight := 1
		if j.replaceable {
			weight = len(f.jobs)
		}
		for _, n := range seen.Nodes {
			if count[n] += weight; best == "" || count[n] > count[best] {
				best = n
			}
		}
	}
	return best, nil
}

// finish lets all jobs end, and waits for the followers of their logs.
func (f *fleet) finish() error { return workload.Finish(f.dir, "") }
