package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/scheduler"
)

// state drives a real state machine, so that plans are checked by the code that applies them.
type state struct {
	t       testing.TB
	machine *fsm.Machine
	index   uint64
	now     time.Time
	step    time.Duration // from one entry to the next
}

func newState(t testing.TB) *state {
	return &state{t: t, machine: fsm.New(), now: time.Unix(1_700_000_000, 0), step: time.Millisecond}
}

func (s *state) apply(commands ...kernel.Command) []any {
	s.t.Helper()
	var raw [][]byte
	for _, c := range commands {
		data, err := kernel.Encode(level.Newest, c)
		require.NoError(s.t, err)
		raw = append(raw, data)
	}
	s.index++
	s.now = s.now.Add(s.step)
	return s.machine.Apply(s.index, kernel.Pack(level.Newest, s.now, raw))
}

// gpus returns n GPUs in islands that are linked by NVLink, with one NUMA node per island.
func gpus(node, kind string, n, island int) []work.GPU {
	out := make([]work.GPU, n)
	for i := range out {
		g := work.GPU{
			UUID: fmt.Sprintf("GPU-%s-%d", node, i), Index: uint8(i), Model: "NVIDIA " + kind, Type: kind, MemMB: 80_000,
			NUMA: int8(i / island), Health: v1.GpuHealth_HEALTHY, Simulated: true,
		}
		for p := range n {
			if p != i && p/island == i/island {
				g.NVLink |= 1 << p
			}
		}
		out[i] = g
	}
	return out
}

func (s *state) node(id string, inventory []work.GPU, labels map[string]string) {
	s.t.Helper()
	r := s.apply(nodeverbs.RegisterNode{Node: work.Node{
		ID: id, Hostname: id, BootID: "b1", AgentVersion: "test", GRPCAddr: id + ":1", GPUs: inventory, CPUs: 64, MemMB: 512 << 10, Labels: labels,
	}})[0].(nodeverbs.NodeResult)
	require.Nil(s.t, r.Refusal)
}

func (s *state) submit(shape work.Shape, priority uint8) ident.Job {
	s.t.Helper()
	r := s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{s.job(shape, priority)}})[0].(jobverbs.SubmitJobsResult)
	require.Nil(s.t, r.Results[0].Refusal)
	return r.Results[0].Job
}

func (s *state) job(shape work.Shape, priority uint8) jobverbs.NewJob {
	if shape.Nodes == 0 {
		shape.Nodes = 1
	}
	return jobverbs.NewJob{Tenant: "t", User: "u", Name: "j", Queue: "default", Priority: priority, Spec: []byte("spec"), Shape: shape}
}

// run plans once and applies the plan. No part of it may be refused.
func (s *state) run() scheduler.Result {
	s.t.Helper()
	return s.runWith(scheduler.Options{PerCommand: 4})
}

func (s *state) runWith(opts scheduler.Options) scheduler.Result {
	s.t.Helper()
	plan := scheduler.Plan(s.machine.View(), opts)
	var commands []kernel.Command
	for _, c := range plan.Commands {
		commands = append(commands, c)
	}
	if len(commands) == 0 {
		return plan
	}
	for _, r := range s.apply(commands...) {
		require.Empty(s.t, r.(jobverbs.PlaceResult).Refused)
	}
	require.Empty(s.t, fsm.Check(s.machine.View()))
	return plan
}

// requireSame requires that two results are equal.
func requireSame(t require.TestingT, want, got scheduler.Result) {
	require.Equal(t, want.Blocked.Keys(), got.Blocked.Keys())
	want.Blocked, got.Blocked = scheduler.Blocked{}, scheduler.Blocked{}
	require.Equal(t, want, got)
}

func (s *state) get(id ident.Job) *work.Job {
	s.t.Helper()
	j, ok := s.machine.View().Job(id)
	require.True(s.t, ok)
	return j
}

// placed returns the places of a job's tasks: "n1:0,1 n2:0".
func (s *state) placed(id ident.Job) string {
	out := ""
	for i, t := range s.get(id).Tasks {
		if i > 0 {
			out += " "
		}
		out += t.Node + ":"
		sep := ""
		for g := range 64 {
			if t.GPUs&(1<<g) != 0 {
				out += fmt.Sprint(sep, g)
				sep = ","
			}
		}
	}
	return out
}

// away makes a node unreachable.
func (s *state) away(node string) {
	s.t.Helper()
	require.Nil(s.t, s.apply(nodeverbs.SetNode{ID: node, Action: nodeverbs.NodeUnreachable})[0].(nodeverbs.NodeResult).Refusal)
}

func (s *state) lose(node string, eligible ...string) int {
	s.index++
	s.machine.StoreConfiguration(s.index, []string{"c1", "c2", "c3"})
	return s.apply(nodeverbs.LoseNode{
		Node: node, Votes: []nodeverbs.Vote{{Coordinator: "c1", Dead: true}, {Coordinator: "c3", Dead: true}},
		Silent: int64(time.Minute), Eligible: eligible,
	})[0].(nodeverbs.LoseNodeResult).Lost
}

// ack lets all reachable nodes acknowledge the newest roster.
func (s *state) ack() {
	var c nodeverbs.AckRoster
	for n := range s.machine.View().Roster() {
		c.Acks = append(c.Acks, nodeverbs.RosterAck{Node: n.ID, Version: s.machine.View().RosterVersion()})
	}
	s.apply(c)
}

func (s *state) submitRetried(shape work.Shape) ident.Job {
	s.t.Helper()
	j := s.job(shape, 5)
	j.Retry = work.RetryPolicy{Max: 9, On: work.RetryInfrastructure}
	r := s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{j}})[0].(jobverbs.SubmitJobsResult).Results[0]
	require.Nil(s.t, r.Refusal)
	return r.Job
}

// fail lets one task of a job fail for a reason that causes a retry, and stops the others.
func (s *state) fail(id ident.Job, rank int) {
	j := s.get(id)
	order := append([]work.Task{j.Tasks[rank]}, append(append([]work.Task(nil), j.Tasks[:rank]...), j.Tasks[rank+1:]...)...)
	for i, t := range order {
		ended := jobverbs.TaskReport{Job: id, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token, Kind: jobverbs.ReportEnded, ErrorType: v1.ErrorType_GPU_FAULT}
		progress := ended
		progress.Kind, progress.ErrorType, progress.Step = jobverbs.ReportProgress, 0, int64(j.Attempt)
		reports := []jobverbs.TaskReport{ended}
		if i == 0 {
			reports = []jobverbs.TaskReport{progress, ended}
		}
		s.apply(jobverbs.ReportTasks{Node: t.Node, Reports: reports})
	}
	// The job pauses before its restart.
	s.now = s.now.Add(5 * time.Minute)
	s.apply(clusterverbs.Tick{})
	require.True(s.t, s.get(id).Waiting())
}

func (s *state) reason(id ident.Job) string {
	return words.Of(s.machine.View().ClassReason(s.machine.View().ClassOf(s.get(id))))
}

// end lets all tasks of a job succeed.
func (s *state) end(id ident.Job) {
	j := s.get(id)
	zero := int32(0)
	for _, t := range j.Tasks {
		s.apply(jobverbs.ReportTasks{Node: t.Node, Reports: []jobverbs.TaskReport{
			{Job: id, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token, Kind: jobverbs.ReportStarting},
			{Job: id, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token, Kind: jobverbs.ReportRunning},
		}})
	}
	for _, t := range j.Tasks {
		s.apply(jobverbs.ReportTasks{Node: t.Node, Reports: []jobverbs.TaskReport{
			{Job: id, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token, Kind: jobverbs.ReportEnded, ExitCode: &zero},
		}})
	}
	require.Equal(s.t, v1.JobState_SUCCEEDED, s.get(id).State)
}
