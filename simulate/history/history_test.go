package history

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/simulate"
	"github.com/mindcoordinator/mind/simulate/trace"
)

// past is a View of some rows.
type past struct {
	now      int64
	nodes    []*work.Node
	jobs     []*work.Job
	elements map[ident.Job][]work.ElementState
	windows  []*windows.Window
}

func (p *past) Windows() iter.Seq[*windows.Window] { return slices.Values(p.windows) }

func (p *past) Now() int64                    { return p.now }
func (p *past) Nodes() iter.Seq[*work.Node]   { return slices.Values(p.nodes) }
func (p *past) Queues() iter.Seq[*work.Queue] { return slices.Values([]*work.Queue{{Name: "default"}}) }
func (p *past) Quotas() iter.Seq[*work.Quota] { return slices.Values([]*work.Quota(nil)) }
func (p *past) Policy() policy.Policy         { return policy.DefaultPolicy() }
func (p *past) Jobs(bool, ident.Job) iter.Seq[*work.Job] {
	return slices.Values(p.jobs)
}

func (p *past) ElementStates(array *work.Job) iter.Seq[work.ElementState] {
	return slices.Values(p.elements[array.ID])
}

var began = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// at returns the time some minutes after the beginning, in Unix nanoseconds.
func at(minutes int) int64 { return began.Add(time.Duration(minutes) * time.Minute).UnixNano() }

func (p *past) add(state v1.JobState_Value, created, started, finished int, change func(*work.Job)) *work.Job {
	j := &work.Job{
		ID: ident.Job((len(p.jobs) + 1) << 16), Tenant: "acme", User: "ann", Queue: "default", Priority: 5, State: state,
		Shape: work.Shape{Nodes: 1, GPUs: 1}, CreatedAt: at(created),
	}
	if started >= 0 {
		j.StartedAt, j.Attempt = at(started), 1
	}
	if finished >= 0 {
		j.FinishedAt = at(finished)
	}
	if change != nil {
		change(j)
	}
	p.jobs = append(p.jobs, j)
	return j
}

func newPast(t *testing.T, now int) *past {
	p := &past{now: at(now), elements: map[ident.Job][]work.ElementState{}}
	for i := range 2 {
		n, err := trace.Node(fmt.Sprint("n", i), 8, "H100", 64, 1<<20)
		require.NoError(t, err)
		p.nodes = append(p.nodes, n)
	}
	return p
}

func TestOf_jobsArriveAndRunAsTheyDid(t *testing.T) {
	p := newPast(t, 100)
	first := p.add(v1.JobState_SUCCEEDED, 0, 5, 15, func(j *work.Job) {
		j.Name, j.Preemptible, j.MaxRuntime = "train", true, int64(time.Hour)
	})
	p.add(v1.JobState_FAILED, 10, 40, 50, func(j *work.Job) {
		j.Tenant, j.Priority = "beta", 9
		j.Past = []work.PastAttempt{{Attempt: 1, StartedAt: at(20), EndedAt: at(30)}}
		j.Dependencies = []work.Dependency{{Job: first.ID}}
	})
	p.add(v1.JobState_SUCCEEDED, 1, 60, 61, func(j *work.Job) { j.NotBefore = at(60) })
	p.add(v1.JobState_SUCCEEDED, 70, 71, 71, nil)
	h := Of(p, time.Time{})
	require.Equal(t, About{Since: began, Until: began.Add(100 * time.Minute), Nodes: 2, Jobs: 4, Finished: 4, Tenants: 2}, h.About)
	require.Equal(t, time.Millisecond, h.Jobs[3].Takes, "start and end were reported together")
	require.Equal(t, trace.Job{
		ID: first.ID.String(), User: "ann", Shape: first.Shape, Takes: 10 * time.Minute, Limit: time.Hour,
		Tenant: "acme", Queue: "default", Name: "train", Priority: 5, Preemptible: true,
	}, h.Jobs[0])
	second := h.Jobs[1]
	require.Equal(t, 20*time.Minute, second.Takes, "all attempts together")
	require.Equal(t, []string{first.ID.String()}, second.After)
	require.Equal(t, 10*time.Minute, second.Submit)
	require.False(t, second.Preemptible)
	require.Equal(t, time.Hour, h.Jobs[2].Submit, "when it might begin")
	_, err := simulate.Run(context.Background(), h.Cluster, h.Jobs, h.Policy, func(int) {})
	require.NoError(t, err)
}

func TestOf_whatIsNotOverIsPredictedAndCounted(t *testing.T) {
	p := newPast(t, 100)
	for range 5 {
		p.add(v1.JobState_SUCCEEDED, 0, 0, 30, nil)
	}
	p.add(v1.JobState_RUNNING, 10, 20, -1, nil)
	p.add(v1.JobState_RUNNING, 10, 20, -1, func(j *work.Job) { j.MaxRuntime = int64(81 * time.Minute) })
	p.add(v1.JobState_QUEUED, 90, -1, -1, nil)
	p.add(v1.JobState_QUEUED, 90, -1, -1, func(j *work.Job) { j.NotBefore = at(500) })
	p.add(v1.JobState_CANCELED, 50, -1, 60, nil)
	h := Of(p, time.Time{})
	require.Equal(t, []int{5, 2, 1, 2}, []int{h.About.Finished, h.About.Running, h.About.Waiting, h.About.NeverRan})
	require.Greater(t, h.Jobs[5].Takes, 81*time.Minute, "it has run for 80 minutes")
	require.Equal(t, 81*time.Minute, h.Jobs[6].Takes, "within its limit")
	require.Equal(t, 30*time.Minute, h.Jobs[7].Takes.Round(time.Minute), "as jobs like it")
	require.Equal(t, []string{
		"8 jobs of 1 tenant on 2 nodes, from 2026-11-01 00:00:00 to 2026-11-01 01:40:00 UTC: 5 finished, 2 running, 1 waiting",
		"how long the 3 jobs that are not over will take is not known: it was predicted from jobs like them, within their limits",
		"left out: 2 jobs that never ran",
	}, h.About.Notes())
}

func TestOf_sinceCutsOffWhatWasBefore(t *testing.T) {
	p := newPast(t, 100)
	p.add(v1.JobState_SUCCEEDED, 0, 0, 30, nil)
	p.add(v1.JobState_SUCCEEDED, 10, 20, 70, nil)
	p.add(v1.JobState_SUCCEEDED, 55, 60, 70, nil)
	h := Of(p, began.Add(50*time.Minute))
	require.Equal(t, 1, h.About.Carried)
	require.Len(t, h.Jobs, 2)
	require.Zero(t, h.Jobs[0].Submit)
	require.Equal(t, 20*time.Minute, h.Jobs[0].Takes, "what was left of it")
	require.Equal(t, 5*time.Minute, h.Jobs[1].Submit)

	h = Of(p, began.Add(-time.Hour))
	require.Equal(t, began, h.About.Since, "it begins with the first job")
	require.Empty(t, Of(p, began.Add(99*time.Minute)).Jobs)
}

func TestOf_elementsAreJobs(t *testing.T) {
	p := newPast(t, 100)
	array, _ := ident.Array(7)
	a := p.add(v1.JobState_QUEUED, 0, -1, -1, func(j *work.Job) {
		j.ID, j.MaxParallel, j.Array = array, 2, &work.Array{Start: 0, End: 4}
	})
	element := func(n uint32, state v1.JobState_Value, started, finished int) work.ElementState {
		row := *a
		row.ID, row.Array, row.State, row.StartedAt, row.Attempt = array.At(n), nil, state, at(started), 1
		if finished > 0 {
			row.FinishedAt = at(finished)
		}
		p.jobs = append(p.jobs, &row)
		return work.ElementState{Number: n, State: state, Row: &row}
	}
	p.elements[array] = []work.ElementState{
		element(0, v1.JobState_SUCCEEDED, 0, 10), element(1, v1.JobState_RUNNING, 50, -1),
		{Number: 2, State: v1.JobState_SUCCEEDED},
		{Number: 3, State: v1.JobState_CANCELED},
		{Number: 4, State: v1.JobState_QUEUED},
	}
	h := Of(p, time.Time{})
	require.Equal(t, []int{4, 2, 1, 1, 1, 1}, []int{h.About.Jobs, h.About.Finished, h.About.Forgotten, h.About.Running, h.About.Waiting, h.About.NeverRan})
	for _, j := range h.Jobs {
		require.Equal(t, array.String(), j.Array)
		require.Equal(t, uint32(2), j.MaxParallel)
	}
	require.Equal(t, 10*time.Minute, h.Jobs[2].Takes, "as long as the other one that ended")
	require.Equal(t, array.String()+"[2]", h.Jobs[2].ID)
}

func TestOf_nodesOfToday(t *testing.T) {
	p := newPast(t, 100)
	p.nodes[1].Drain = &work.Drain{}
	p.nodes[0].UnreachableSince, p.nodes[0].State = at(99), v1.NodeState_UNREACHABLE
	p.add(v1.JobState_SUCCEEDED, 0, 0, 30, func(j *work.Job) { j.Shape.Nodes = 2 })
	p.add(v1.JobState_SUCCEEDED, 0, 0, 30, nil)
	h := Of(p, time.Time{})
	require.Equal(t, []string{"n1"}, h.About.NodesOut)
	require.Equal(t, 1, h.About.TooLarge)
	require.Len(t, h.Jobs, 1)
	_, err := simulate.Run(context.Background(), h.Cluster, h.Jobs, h.Policy, func(int) {})
	require.NoError(t, err, "that a node cannot be reached now says nothing of the past")
	require.Contains(t, h.About.Notes(), "left out: 1 node, lost or drained: n1")
	require.Contains(t, h.About.Notes(), "left out: 1 job that the nodes of today could not hold")
}

// A node that is drained by a maintenance is in the history, with the maintenance; one that an operator has drained is not.
func TestOf_maintenances(t *testing.T) {
	p := newPast(t, 100)
	p.windows = []*windows.Window{{Name: "m", Kind: windows.Maintenance, From: at(90), Until: at(120), Nodes: []string{"n0"}, Begun: true, Drained: []string{"n0"}}}
	for _, n := range p.nodes {
		n.Drain = &work.Drain{}
	}
	h := Of(p, time.Time{})
	require.Equal(t, []string{"n1"}, h.About.NodesOut)
	require.Equal(t, p.windows, h.Cluster.Windows)
	require.Nil(t, h.Cluster.Nodes[0].Drain)
}
