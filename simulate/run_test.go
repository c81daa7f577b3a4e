package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/simulate/trace"
)

func nodes(t require.TestingT, count, gpus int) []*work.Node {
	var all []*work.Node
	for i := range count {
		n, err := trace.Node(fmt.Sprintf("n%03d", i), gpus, "GPU", 64_000, 1<<20)
		require.NoError(t, err)
		all = append(all, n)
	}
	return all
}

func asked(user string, gpus int, submit, takes time.Duration) trace.Job {
	return trace.Job{ID: user, User: user, Shape: work.Shape{Nodes: 1, GPUs: uint16(gpus)}, Submit: submit, Takes: takes}
}

func simulated(t require.TestingT, nodes []*work.Node, jobs []trace.Job, policy policy.Policy) *run {
	r := newRun(Cluster{Nodes: nodes}, jobs, policy)
	require.NoError(t, r.all(context.Background(), func(int) {}))
	return r
}

func named(t require.TestingT, name string) policy.Policy {
	p, ok := Policy(name)
	require.True(t, ok, name)
	return p
}

func TestRun_waitsForWhatIsInUse(t *testing.T) {
	jobs := []trace.Job{
		asked("a", 8, 0, time.Hour),
		asked("b", 8, 10*time.Minute, 2*time.Hour),
		asked("c", 8, 20*time.Minute, time.Hour),
	}
	m, err := Run(context.Background(), Cluster{Nodes: nodes(t, 1, 8)}, jobs, named(t, "fifo"), func(int) {})
	require.NoError(t, err)
	require.Equal(t, (50.0+160)*60/3, m.WaitMeanSeconds)
	require.Equal(t, 160.0*60, m.WaitMaxSeconds)
	require.Equal(t, (60.0+170+220)*60/3, m.CompletionMeanSeconds)
	require.InDelta(t, 100, m.GPUAllocationPercent, 1e-9)
	require.InDelta(t, 1, m.Utilisation, 1e-9)
	require.Equal(t, "c", m.WorstUser)
	require.Zero(t, m.Preemptions)
}

func TestRun_preemptionPays(t *testing.T) {
	// The long job has worked for 190 minutes when the short ones arrive, and its newest checkpoint has 180 minutes of
	// work.
	jobs := []trace.Job{asked("seen", 8, 0, 20*time.Minute), asked("long", 8, 20*time.Minute, 40*time.Hour)}
	for range 4 {
		jobs = append(jobs, asked("short", 8, 205*time.Minute, 20*time.Minute))
	}
	policy := named(t, "preemptive")
	r := simulated(t, nodes(t, 1, 8), jobs, policy)
	require.Equal(t, 1, r.seen.preemptions)
	long := r.jobs[1]
	require.Equal(t, uint32(2), long.row.Attempt)
	stopped := long.row.Past[0].EndedAt - long.row.Past[0].StartedAt
	lost := stopped % interval
	require.Less(t, lost, policy.Preemption.Every+1, "just saved")
	require.GreaterOrEqual(t, stopped, policy.Preemption.Protect)
	require.InDelta(t, float64(lost+restart)*8000, r.seen.lost, 1)
	// It ends when its work is done, the lost work is done again, and the restart and the short jobs are over.
	require.Equal(t, origin+int64(20*time.Minute+40*time.Hour+4*20*time.Minute)+lost+restart, long.ended)
}

func TestRun_refusesWhatNeverFits(t *testing.T) {
	_, err := Run(context.Background(), Cluster{Nodes: nodes(t, 1, 4)}, []trace.Job{asked("big", 8, 0, time.Hour)}, named(t, "fifo"), func(int) {})
	require.EqualError(t, err, `job "big" needs 1 nodes with 8 GPUs, and 0 nodes of the inventory could hold a part of it`)
}

func TestRun_dropsWhatNeverFits(t *testing.T) {
	after := asked("after", 1, time.Minute, time.Hour)
	after.After = []string{"big"}
	m, err := Run(context.Background(), Cluster{Nodes: nodes(t, 1, 4)}, []trace.Job{
		asked("big", 8, 0, time.Hour), after, asked("small", 4, time.Minute, time.Hour), asked("next", 4, time.Minute, time.Hour),
	}, named(t, "fifo"), func(int) {})
	require.NoError(t, err)
	require.Equal(t, 4, m.Jobs)
	require.Equal(t, 2, m.Dropped)
	require.EqualValues(t, 1800, m.WaitMeanSeconds)
}

// TestRun_properties checks that jobs have exactly their GPU time, that no job runs twice at a time, and that runs with
// the same inputs are equal. It need not check that no GPU is leased twice: the cluster of the run refuses that.
func TestRun_properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		random := rand.New(rand.NewPCG(seed, 1))
		var jobs []trace.Job
		at := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "jobs") {
			at += time.Duration(random.IntN(60)) * time.Minute
			takes := time.Duration(1+random.IntN(30)) * time.Minute
			if random.IntN(3) == 0 {
				takes *= 100
			}
			j := asked(fmt.Sprint("u", random.IntN(3)), 1<<random.IntN(4), at, takes)
			if j.Shape.GPUs == 8 && random.IntN(3) == 0 {
				j.Shape.Nodes = 2
			}
			jobs = append(jobs, j)
		}
		policy := named(t, rapid.SampledFrom(Policies()).Draw(t, "policy"))
		r := simulated(t, nodes(t, 3, 8), jobs, policy)
		held, useful := 0.0, 0.0
		for i, j := range r.jobs {
			require.Greater(t, j.ended, int64(0), "every job ends")
			last := j.row.CreatedAt
			for _, p := range j.row.Past {
				require.GreaterOrEqual(t, p.StartedAt, last)
				last = p.EndedAt
				held += float64(p.EndedAt-p.StartedAt) * float64(j.row.Shape.GPUMilli())
			}
			require.GreaterOrEqual(t, j.row.StartedAt, last)
			held += float64(j.ended-j.row.StartedAt) * float64(j.row.Shape.GPUMilli())
			useful += float64(jobs[i].Takes) * float64(j.row.Shape.GPUMilli())
		}
		require.InEpsilon(t, held, r.seen.held, 1e-9)
		require.InEpsilon(t, held, useful+r.seen.lost, 1e-9, "GPU time is work that is kept, or what preemption cost")
		require.Zero(t, r.cluster.used)
		require.Equal(t, r.measures(), simulated(t, nodes(t, 3, 8), jobs, policy).measures())
	})
}

func TestInflate(t *testing.T) {
	tasks := []trace.Job{
		asked("a", 1, 0, 0), asked("b", 2, 0, 0), asked("c", 8, 0, 0),
		{ID: "d", Shape: work.Shape{Nodes: 1, FractionMilli: 300, CPUs: 100}},
	}
	inflate := func(seed uint64, until float64) Measures {
		m, err := Inflate(context.Background(), nodes(t, 20, 8), tasks, named(t, "fifo"), seed, until, func(int) {})
		require.NoError(t, err)
		return m
	}
	full := inflate(42, 1.3)
	require.Equal(t, full, inflate(42, 1.3), "the seed decides")
	require.NotEqual(t, full.Jobs, inflate(43, 1.3).Jobs)
	require.Greater(t, full.Dropped, 0, "1.3 times as much does not fit")
	require.LessOrEqual(t, full.GPUAllocationPercent, 100.0)
	require.Greater(t, full.GPUAllocationPercent, 85.0)
	half := inflate(42, 0.5)
	require.Zero(t, half.Dropped)
	require.InDelta(t, 50, half.GPUAllocationPercent, 100*8.0/160)
}
