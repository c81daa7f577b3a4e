package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
)

// submitAs submits a job after a change by the test.
func (s *state) submitAs(shape work.Shape, change func(*jobverbs.NewJob)) ident.Job {
	n := s.job(shape, 5)
	change(&n)
	return s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{n}})[0].(jobverbs.SubmitJobsResult).Results[0].Job
}

func TestPlan_maintenanceKeepsNodes(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	s.node("n2", gpus("n2", "H100", 4, 4), nil)
	now := s.machine.View().Now()
	s.apply(windowverbs.PutWindow{Name: "kernel", Kind: windows.Maintenance, Patterns: []string{"n1"}, From: now + int64(time.Hour), Until: now + int64(2*time.Hour)})
	open := s.submit(work.Shape{GPUs: 2}, 5)
	large := s.submit(work.Shape{GPUs: 8}, 5)
	short := s.submitAs(work.Shape{GPUs: 1}, func(n *jobverbs.NewJob) { n.MaxRuntime = int64(30 * time.Minute) })
	rounded := s.submitAs(work.Shape{GPUs: 5}, func(n *jobverbs.NewJob) { n.MaxRuntime = int64(50 * time.Minute) })
	s.run()
	require.Equal(t, "n2", s.get(open).Tasks[0].Node, "there is no time limit, so it goes elsewhere")
	require.Equal(t, v1.JobState_ALLOCATED, s.get(short).State)
	require.Equal(t, v1.JobState_QUEUED, s.get(large).State)
	require.Contains(t, s.reason(large), "kept for a maintenance or a reservation")
	require.Equal(t, v1.JobState_QUEUED, s.get(rounded).State, "to the planner its limit is 64 minutes")

	yields := s.submitAs(work.Shape{GPUs: 7}, func(n *jobverbs.NewJob) { n.Preemptible = true })
	s.end(short)
	s.run()
	require.Equal(t, "n1", s.get(yields).Tasks[0].Node)
	s.end(yields)
	s.apply(windowverbs.DeleteWindow{Name: "kernel", Kind: windows.Maintenance})
	s.run()
	require.Equal(t, v1.JobState_ALLOCATED, s.get(large).State)
}

func TestPlan_reservedNodesComeFirst(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 4, 4), nil)
	s.node("n2", gpus("n2", "H100", 8, 8), nil)
	now := s.machine.View().Now()
	s.apply(windowverbs.PutWindow{Name: "paper", Kind: windows.Reservation, Tenant: "umbrella", GPUs: 8, From: now, Until: now + int64(time.Hour)}, clusterverbs.Tick{})
	own := s.submitAs(work.Shape{GPUs: 4}, func(n *jobverbs.NewJob) { n.Tenant = "umbrella" })
	other := s.submit(work.Shape{GPUs: 4}, 5)
	more := s.submitAs(work.Shape{GPUs: 4}, func(n *jobverbs.NewJob) { n.Preemptible = true })
	s.run()
	require.Equal(t, "n2", s.get(own).Tasks[0].Node, "n1 would be the better fit, and is for all")
	placed := s.get(other)
	if placed.State == v1.JobState_QUEUED {
		placed = s.get(more)
	}
	require.Equal(t, "n1", placed.Tasks[0].Node)
	require.Equal(t, 1, s.machine.View().Counts()[v1.JobState_QUEUED], "what the tenant does not use is not lent")
}

// A reservation does not give a job a node that the job excludes.
func TestPlan_reservedNodesMayBeExcluded(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	s.node("n2", gpus("n2", "H100", 8, 8), nil)
	now := s.machine.View().Now()
	s.apply(windowverbs.PutWindow{Name: "paper", Kind: windows.Reservation, Tenant: "t", GPUs: 16, From: now, Until: now + int64(time.Hour)}, clusterverbs.Tick{})
	first := s.submit(work.Shape{GPUs: 8, Exclude: "n1"}, 5)
	second := s.submit(work.Shape{GPUs: 8, Exclude: "n1"}, 5)
	s.run()
	require.Equal(t, "n2", s.get(first).Tasks[0].Node)
	require.Equal(t, v1.JobState_QUEUED, s.get(second).State)
}

// A tenant's own reservation ends at a maintenance: a job that could not end before it does not start there.
func TestPlan_maintenanceAfterTheOwnReservation(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	s.node("n2", gpus("n2", "H100", 4, 4), nil)
	now := s.machine.View().Now()
	hour := int64(time.Hour)
	require.Nil(t, s.apply(windowverbs.PutWindow{Name: "kernel", Kind: windows.Maintenance, Patterns: []string{"n1"}, From: now + hour, Until: now + 2*hour})[0].(windowverbs.WindowResult).Refusal)
	require.Nil(t, s.apply(windowverbs.PutWindow{Name: "paper", Kind: windows.Reservation, Tenant: "t", GPUs: 8, From: now, Until: now + hour/2}, clusterverbs.Tick{})[0].(windowverbs.WindowResult).Refusal)
	open := s.submit(work.Shape{GPUs: 4}, 5)
	short := s.submitAs(work.Shape{GPUs: 4}, func(n *jobverbs.NewJob) { n.MaxRuntime = int64(10 * time.Minute) })
	s.run()
	require.Equal(t, "n2", s.get(open).Tasks[0].Node, "n1 is reserved for the tenant, but the job may last longer than until the maintenance")
	require.Equal(t, "n1", s.get(short).Tasks[0].Node)
}
