package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/api/launcher"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/admin"
	"github.com/mindcoordinator/mind/coordinator/admission"
	"github.com/mindcoordinator/mind/coordinator/session"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/catalog"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/scheduler/capacity"
)

// stateOf applies commands, one entry each, and returns the machine.
func stateOf(t *testing.T, commands ...kernel.Command) (*fsm.Machine, func(kernel.Command) any) {
	t.Helper()
	m := fsm.New()
	index := uint64(0)
	apply := func(c kernel.Command) any {
		data, err := kernel.Encode(level.Newest, c)
		require.NoError(t, err)
		index++
		return m.Apply(index, kernel.Pack(level.Newest, time.Unix(1_700_000_000, int64(index)), [][]byte{data}))[0]
	}
	for _, c := range commands {
		apply(c)
	}
	return m, apply
}

// sleeper returns the request of a job with one GPU.
func sleeper() *v1.SubmitJobRequest {
	return &v1.SubmitJobRequest{
		Name: "sleeper", CommandConfig: &v1.CommandConfig{Argv: []string{"sleep", "1000"}, Cwd: "/"}, ResourceConfig: &v1.ResourceConfig{GpuCount: 1},
	}
}

func TestOrderBook_tellsOnlyWhatIsNew(t *testing.T) {
	spec, err := admission.Parse(sleeper(), capacity.New())
	require.NoError(t, err)
	spec.Tenant = "t1"
	m, apply := stateOf(t,
		nodeverbs.RegisterNode{Node: work.Node{ID: "n1", BootID: "b", GRPCAddr: "10.0.0.7:1", CPUs: 8, MemMB: 1000, GPUs: []work.GPU{
			{UUID: "g0", Index: 0, Type: "H100", Model: "H100", Health: v1.GpuHealth_HEALTHY},
			{UUID: "g1", Index: 1, Type: "H100", Model: "H100", Health: v1.GpuHealth_HEALTHY},
		}}},
		jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{spec, spec}},
	)
	first, second := ident.Job(2<<16), ident.Job(2<<16+1)
	book := session.NewOrderBook("n1", admin.LauncherFor, nil)
	orders := book.Update(m.View())
	require.NotNil(t, orders, "the first orders say that nothing is wanted")
	require.Empty(t, orders.GetTasks())
	require.Nil(t, book.Update(m.View()))

	place := func(id ident.Job, gpu uint64) {
		r := apply(jobverbs.PlaceJobs{Placements: []work.Placement{{Job: id, Attempt: 1, Tasks: []work.TaskPlacement{{Node: "n1", GPUs: gpu}}}}}).(jobverbs.PlaceResult)
		require.Empty(t, r.Refused)
	}
	place(first, 1)
	orders = book.Update(m.View())
	require.Len(t, orders.GetTasks(), 1)
	task := orders.GetTasks()[0]
	require.Equal(t, []int32{0}, task.GetSpec().GetGpus())
	require.Equal(t, []string{"sleep", "1000"}, task.GetSpec().GetJob().GetCommandConfig().GetArgv())
	require.Equal(t, "10.0.0.7", task.GetSpec().GetPeers()[0].GetHost())
	require.EqualValues(t, 3, task.GetTask().GetToken())

	place(second, 2)
	orders = book.Update(m.View())
	require.Len(t, orders.GetTasks(), 2, "all that is wanted, always")
	require.Nil(t, orders.GetTasks()[0].GetSpec(), "told before")
	require.NotNil(t, orders.GetTasks()[1].GetSpec())
	require.NotNil(t, session.NewOrderBook("n1", admin.LauncherFor, nil).Update(m.View()).GetTasks()[0].GetSpec(), "another session is told everything again")

	report := func(kind jobverbs.ReportKind) {
		zero := int32(0)
		r := jobverbs.TaskReport{Job: first, Attempt: 1, Token: 3, Kind: kind}
		if kind == jobverbs.ReportEnded {
			r.ExitCode = &zero
		}
		require.Equal(t, 1, apply(jobverbs.ReportTasks{Node: "n1", Reports: []jobverbs.TaskReport{r}}).(jobverbs.ReportResult).Applied)
	}
	report(jobverbs.ReportStarting)
	require.Nil(t, book.Update(m.View()), "what the agent said is no news to it")
	apply(jobverbs.ControlJob{Tenant: "t1", Job: second, Action: work.ActionCancel})
	orders = book.Update(m.View())
	require.Equal(t, v1.StopReason_CANCEL, orders.GetTasks()[1].GetStop())
	require.EqualValues(t, 30, orders.GetTasks()[1].GetGracePeriodSeconds())
	require.Nil(t, orders.GetTasks()[1].GetSpec())
	report(jobverbs.ReportRunning)
	report(jobverbs.ReportEnded)
	require.Nil(t, book.Update(m.View()), "the agent said itself that it has ended")
	full := session.NewOrderBook("n1", admin.LauncherFor, nil).Update(m.View())
	require.Len(t, full.GetTasks(), 1, "what has ended is not wanted any more")
	require.Equal(t, second.String(), full.GetTasks()[0].GetTask().GetJobId())

	apply(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeForget})
	orders = book.Update(m.View())
	require.NotNil(t, orders, "what ended without the agent it must hear, and stop")
	require.Empty(t, orders.GetTasks())
}

// A task gets the launcher that is in force when its node gets the order.
func TestTaskSpec_bringsTheLauncherInForce(t *testing.T) {
	training, err := admission.Parse(&v1.SubmitJobRequest{
		Name: "support-lora-v3", ResourceConfig: &v1.ResourceConfig{GpuCount: 1},
		TrainingConfig: &v1.TrainingConfig{
			TrainingType: v1.TrainingType_LORA,
			BaseModel:    &v1.BaseModel{ModelId: "mistral-7b"},
			Framework:    &v1.Framework{Type: v1.FrameworkType_HF_TRAINER},
		},
		DataConfig: &v1.DataConfig{Sources: []*v1.DataSource{{Path: "/data/train.jsonl"}}},
	}, capacity.New())
	require.NoError(t, err)
	command, err := admission.Parse(sleeper(), capacity.New())
	require.NoError(t, err)
	training.Tenant, command.Tenant = "t1", "t1"
	m, apply := stateOf(t,
		nodeverbs.RegisterNode{Node: work.Node{ID: "n1", BootID: "b", CPUs: 8, MemMB: 1000, GPUs: []work.GPU{
			{UUID: "g0", Index: 0, Type: "H100", Model: "H100", Health: v1.GpuHealth_HEALTHY},
			{UUID: "g1", Index: 1, Type: "H100", Model: "H100", Health: v1.GpuHealth_HEALTHY},
		}}},
		jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{training, command}},
	)
	apply(jobverbs.PlaceJobs{Placements: []work.Placement{
		{Job: ident.Job(2 << 16), Attempt: 1, Tasks: []work.TaskPlacement{{Node: "n1", GPUs: 1}}},
		{Job: ident.Job(2<<16 + 1), Attempt: 1, Tasks: []work.TaskPlacement{{Node: "n1", GPUs: 2}}},
	}})
	tasks := session.NewOrderBook("n1", admin.LauncherFor, nil).Update(m.View()).GetTasks()
	require.Len(t, tasks, 2)
	require.Equal(t, launcher.Builtin("HF_TRAINER").GetArgv(), tasks[0].GetSpec().GetLauncher().GetArgv())
	require.Empty(t, tasks[0].GetSpec().GetLauncher().GetHyperparameters(), "the node has no use for them")
	require.Nil(t, tasks[1].GetSpec().GetLauncher(), "a command says itself what runs")

	apply(catalog.PutLauncher{Launcher: catalog.Launcher{Framework: "HF_TRAINER", Argv: []string{"/opt/hf"}, Environment: map[string]string{"A": "{model}"}}})
	told := session.NewOrderBook("n1", admin.LauncherFor, nil).Update(m.View()).GetTasks()[0].GetSpec().GetLauncher()
	require.Equal(t, []string{"/opt/hf"}, told.GetArgv())
	require.Equal(t, map[string]string{"A": "{model}"}, told.GetEnvironment())
}
