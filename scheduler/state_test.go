package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/scheduler"
)

// state drives a real machine, so that what is planned is checked by what will apply it.
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

func (s *state) apply(commands ...fsm.Command) []any {
	s.t.Helper()
	var raw [][]byte
	for _, c := range commands {
		data, err := fsm.Encode(c)
		require.NoError(s.t, err)
		raw = append(raw, data)
	}
	s.index++
	s.now = s.now.Add(s.step)
	return s.machine.Apply(s.index, fsm.Pack(s.now, raw))
}

// gpus makes an inventory: n GPUs in islands of so many that reach each other over NVLink, one NUMA node per island.
func gpus(node, kind string, n, island int) []fsm.GPU {
	out := make([]fsm.GPU, n)
	for i := range out {
		g := fsm.GPU{
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

func (s *state) node(id string, inventory []fsm.GPU, labels map[string]string) {
	s.t.Helper()
	r := s.apply(fsm.RegisterNode{Node: fsm.Node{
		ID: id, Hostname: id, BootID: "b1", AgentVersion: "test", GRPCAddr: id + ":1", GPUs: inventory, CPUs: 64, MemMB: 512 << 10, Labels: labels,
	}})[0].(fsm.NodeResult)
	require.Nil(s.t, r.Refusal)
}

func (s *state) submit(shape fsm.Shape, priority uint8) fsm.JobID {
	s.t.Helper()
	r := s.apply(fsm.SubmitJobs{Jobs: []fsm.NewJob{s.job(shape, priority)}})[0].(fsm.SubmitJobsResult)
	require.Nil(s.t, r.Results[0].Refusal)
	return r.Results[0].Job
}

func (s *state) job(shape fsm.Shape, priority uint8) fsm.NewJob {
	if shape.Nodes == 0 {
		shape.Nodes = 1
	}
	return fsm.NewJob{Tenant: "t", User: "u", Name: "j", Queue: "default", Priority: priority, Spec: []byte("spec"), Shape: shape}
}

// run plans once and applies what was planned; nothing of it may be refused.
func (s *state) run() scheduler.Result {
	s.t.Helper()
	return s.runWith(scheduler.Options{PerCommand: 4})
}

func (s *state) runWith(opts scheduler.Options) scheduler.Result {
	s.t.Helper()
	plan := scheduler.Plan(s.machine.View(), s.now, opts)
	var commands []fsm.Command
	for _, c := range plan.Commands {
		commands = append(commands, c)
	}
	if len(commands) == 0 {
		return plan
	}
	for _, r := range s.apply(commands...) {
		require.Empty(s.t, r.(fsm.PlaceResult).Refused)
	}
	require.Empty(s.t, fsm.Check(s.machine.View()))
	return plan
}

func (s *state) get(id fsm.JobID) *fsm.Job {
	s.t.Helper()
	j, ok := s.machine.View().Job(id)
	require.True(s.t, ok)
	return j
}

// placed says where the tasks of a job are: "n1:0,1 n2:0".
func (s *state) placed(id fsm.JobID) string {
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

// away makes a node fall silent; lose declares it lost, by two of three votes, and returns how many tasks were.
func (s *state) away(node string) {
	s.t.Helper()
	require.Nil(s.t, s.apply(fsm.SetNode{ID: node, Action: fsm.NodeUnreachable})[0].(fsm.NodeResult).Refusal)
}

func (s *state) lose(node string, eligible ...string) int {
	s.index++
	s.machine.StoreConfiguration(s.index, []string{"c1", "c2", "c3"})
	return s.apply(fsm.LoseNode{
		Node: node, Votes: []fsm.Vote{{Coordinator: "c1", Dead: true}, {Coordinator: "c3", Dead: true}},
		Silent: int64(time.Minute), Eligible: eligible,
	})[0].(fsm.LoseNodeResult).Lost
}

// ack has all nodes that can be reached acknowledge the newest roster.
func (s *state) ack() {
	var c fsm.AckRoster
	for n := range s.machine.View().Roster() {
		c.Acks = append(c.Acks, fsm.RosterAck{Node: n.ID, Version: s.machine.View().RosterVersion()})
	}
	s.apply(c)
}

func (s *state) submitRetried(shape fsm.Shape) fsm.JobID {
	s.t.Helper()
	j := s.job(shape, 5)
	j.Retry = fsm.RetryPolicy{Max: 9, On: fsm.RetryInfrastructure}
	r := s.apply(fsm.SubmitJobs{Jobs: []fsm.NewJob{j}})[0].(fsm.SubmitJobsResult).Results[0]
	require.Nil(s.t, r.Refusal)
	return r.Job
}

// fail has one task of a job fail for a reason that a retry follows, and the others stop.
func (s *state) fail(id fsm.JobID, rank int) {
	j := s.get(id)
	order := append([]fsm.Task{j.Tasks[rank]}, append(append([]fsm.Task(nil), j.Tasks[:rank]...), j.Tasks[rank+1:]...)...)
	for i, t := range order {
		ended := fsm.TaskReport{Job: id, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token, Kind: fsm.ReportEnded, ErrorType: v1.ErrorType_GPU_FAULT}
		progress := ended
		progress.Kind, progress.ErrorType, progress.Step = fsm.ReportProgress, 0, int64(j.Attempt)
		reports := []fsm.TaskReport{ended}
		if i == 0 {
			reports = []fsm.TaskReport{progress, ended}
		}
		s.apply(fsm.ReportTasks{Node: t.Node, Reports: reports})
	}
	// It pauses before it is restarted.
	s.now = s.now.Add(5 * time.Minute)
	s.apply(fsm.Tick{})
	require.True(s.t, s.get(id).Waiting())
}

func (s *state) reason(id fsm.JobID) string {
	return s.machine.View().ClassReason(s.machine.View().ClassOf(s.get(id)))
}

// end lets a job finish.
func (s *state) end(id fsm.JobID) {
	j := s.get(id)
	zero := int32(0)
	for _, t := range j.Tasks {
		s.apply(fsm.ReportTasks{Node: t.Node, Reports: []fsm.TaskReport{
			{Job: id, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token, Kind: fsm.ReportStarting},
			{Job: id, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token, Kind: fsm.ReportRunning},
		}})
	}
	for _, t := range j.Tasks {
		s.apply(fsm.ReportTasks{Node: t.Node, Reports: []fsm.TaskReport{
			{Job: id, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token, Kind: fsm.ReportEnded, ExitCode: &zero},
		}})
	}
	require.Equal(s.t, v1.JobState_SUCCEEDED, s.get(id).State)
}
