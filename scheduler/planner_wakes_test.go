package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/typed"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
	"github.com/mindcoordinator/mind/scheduler"
)

// planned plans with a planner and applies the plan. It returns the jobs that were placed.
func (s *state) planned(p *scheduler.Planner) (placed []ident.Job) {
	s.t.Helper()
	v := s.machine.View()
	plan := p.Plan(v, scheduler.Options{})
	require.NoError(s.t, p.Check(v))
	requireSame(s.t, scheduler.Plan(v, scheduler.Options{}), plan)
	for _, c := range plan.Commands {
		require.Empty(s.t, s.apply(c)[0].(jobverbs.PlaceResult).Refused)
		for _, made := range c.Placements {
			placed = append(placed, made.Job)
		}
	}
	return placed
}

// A class that its limits bar takes part in no pass until they have room, by the end of a job or by another limit.
func TestPlanner_classesWaitForRoomInTheirLimits(t *testing.T) {
	s := newState(t)
	s.node("n0", gpus("n0", "H100", 8, 8), nil)
	limit := func(most int32) { s.apply(queueverbs.PutQuota{Tenant: "t", MaxGPUs: &most}) }
	limit(3)
	s.submit(work.Shape{GPUs: 8}, 5) // The limits always bar this one, so their numbers count.
	var jobs []ident.Job
	for range 4 {
		jobs = append(jobs, s.submit(work.Shape{GPUs: 2}, 5))
	}
	var planner scheduler.Planner
	require.Equal(t, jobs[:1], s.planned(&planner))
	for range 2 {
		require.Empty(t, s.planned(&planner))
	}
	s.end(jobs[0])
	require.Equal(t, jobs[1:2], s.planned(&planner))
	require.Empty(t, s.planned(&planner))
	limit(5)
	require.Equal(t, jobs[2:3], s.planned(&planner))
	require.Empty(t, s.planned(&planner))
	require.Contains(t, s.reason(jobs[3]), "4 of 5")
}

// The hours of a tenant are new ones when another month has begun, although none of its jobs has changed.
func TestPlanner_limitsHaveRoomInTheNextMonth(t *testing.T) {
	s := newState(t)
	s.node("n0", gpus("n0", "H100", 8, 8), nil)
	hours := int32(1)
	s.apply(queueverbs.PutQuota{Tenant: "t", MaxGPUHours: &hours})
	first, second := s.submit(work.Shape{GPUs: 8}, 5), s.submit(work.Shape{GPUs: 8}, 5)
	var planner scheduler.Planner
	require.Equal(t, []ident.Job{first}, s.planned(&planner))
	s.start(first)
	s.now = s.now.Add(time.Hour)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	for range 2 {
		require.Empty(t, s.planned(&planner))
	}
	_, next := budgets.MonthOf(s.now.UnixMilli())
	s.now = time.UnixMilli(next + 1)
	s.apply(clusterverbs.Tick{})
	require.Equal(t, []ident.Job{second}, s.planned(&planner))
}

// The limits of a tenant by type have room again when a node of its jobs has come back with GPUs of another type.
func TestPlanner_limitsHaveRoomWhenANodeHasOtherGPUs(t *testing.T) {
	s := newState(t)
	s.node("n0", gpus("n0", "H100", 8, 8), nil)
	s.apply(queueverbs.PutQuota{Tenant: "t", MaxByType: typed.Limits{{Type: "H100", GPUs: 8}}})
	first, second := s.submit(work.Shape{GPUs: 8}, 5), s.submit(work.Shape{GPUs: 8, GPUType: "H100"}, 5)
	var planner scheduler.Planner
	require.Equal(t, []ident.Job{first}, s.planned(&planner))
	s.start(first)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	for range 2 {
		require.Empty(t, s.planned(&planner))
	}
	j := s.get(first)
	s.apply(nodeverbs.RegisterNode{Node: work.Node{
		ID: "n0", Hostname: "n0", BootID: "b1", AgentVersion: "test", GRPCAddr: "n0:1", GPUs: gpus("n0", "A100", 8, 8), CPUs: 64, MemMB: 512 << 10,
	}, Tasks: []work.TaskRef{{Job: first, Attempt: j.Attempt, Token: j.Token}}})
	require.Equal(t, []ident.Job{second}, s.planned(&planner))
}

// The effect of windows on a class changes with time alone.
func TestPlanner_aWindowKeepsItsNodesWhenItsTimeComes(t *testing.T) {
	s := newState(t)
	s.node("n0", gpus("n0", "H100", 8, 8), nil)
	limited := func() ident.Job {
		j := s.job(work.Shape{GPUs: 8}, 5)
		j.MaxRuntime = int64(time.Hour)
		return s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{j}})[0].(jobverbs.SubmitJobsResult).Results[0].Job
	}
	from := s.now.Add(3 * time.Hour).UnixNano()
	s.apply(windowverbs.PutWindow{Name: "kernel", Kind: windows.Maintenance, Patterns: []string{"n0"}, From: from, Until: from + int64(time.Hour)})
	var planner scheduler.Planner
	first, second := limited(), limited()
	require.Equal(t, []ident.Job{first}, s.planned(&planner))
	require.Empty(t, s.planned(&planner))
	s.now = s.now.Add(150 * time.Minute)
	s.apply(clusterverbs.Tick{})
	s.end(first)
	require.Empty(t, s.planned(&planner), "the second job would not end in time")
	s.now = s.now.Add(2 * time.Hour)
	for range 3 {
		s.apply(clusterverbs.Tick{})
	}
	require.Equal(t, []ident.Job{second}, s.planned(&planner), "the window is over")
}
