package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/admin"
	"github.com/mindcoordinator/mind/coordinator/admission"
	"github.com/mindcoordinator/mind/coordinator/session"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/scheduler"
)

// stateOf applies commands, one entry each, and returns the machine.
func stateOf(t *testing.T, commands ...fsm.Command) (*fsm.Machine, func(fsm.Command) any) {
	t.Helper()
	m := fsm.New()
	index := uint64(0)
	apply := func(c fsm.Command) any {
		data, err := fsm.Encode(c)
		require.NoError(t, err)
		index++
		return m.Apply(index, fsm.Pack(time.Unix(1_700_000_000, int64(index)), [][]byte{data}))[0]
	}
	for _, c := range commands {
		apply(c)
	}
	return m, apply
}

func TestOrderBook_tellsOnlyWhatIsNew(t *testing.T) {
	spec, err := admission.Parse(sleeper(1, 0), scheduler.NewCapacity())
	require.NoError(t, err)
	spec.Tenant = "t1"
	m, apply := stateOf(t,
		fsm.RegisterNode{Node: fsm.Node{ID: "n1", BootID: "b", GRPCAddr: "10.0.0.7:1", CPUs: 8, MemMB: 1000, GPUs: []fsm.GPU{
			{UUID: "g0", Index: 0, Type: "H100", Model: "H100", Health: v1.GpuHealth_HEALTHY},
			{UUID: "g1", Index: 1, Type: "H100", Model: "H100", Health: v1.GpuHealth_HEALTHY},
		}}},
		fsm.SubmitJobs{Jobs: []fsm.NewJob{spec, spec}},
	)
	first, second := fsm.JobID(2<<16), fsm.JobID(2<<16+1)
	book := session.NewOrderBook("n1", admin.LauncherFor, nil)
	orders := book.Update(m.View())
	require.NotNil(t, orders, "the first orders say that nothing is wanted")
	require.Empty(t, orders.GetTasks())
	require.Nil(t, book.Update(m.View()))

	place := func(id fsm.JobID, gpu uint64) {
		r := apply(fsm.PlaceJobs{Placements: []fsm.Placement{{Job: id, Attempt: 1, Tasks: []fsm.TaskPlacement{{Node: "n1", GPUs: gpu}}}}}).(fsm.PlaceResult)
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

	report := func(kind fsm.ReportKind) {
		zero := int32(0)
		r := fsm.TaskReport{Job: first, Attempt: 1, Token: 3, Kind: kind}
		if kind == fsm.ReportEnded {
			r.ExitCode = &zero
		}
		require.Equal(t, 1, apply(fsm.ReportTasks{Node: "n1", Reports: []fsm.TaskReport{r}}).(fsm.ReportResult).Applied)
	}
	report(fsm.ReportStarting)
	require.Nil(t, book.Update(m.View()), "what the agent said is no news to it")
	apply(fsm.ControlJob{Tenant: "t1", Job: second, Action: fsm.ActionCancel})
	orders = book.Update(m.View())
	require.Equal(t, v1.StopReason_CANCEL, orders.GetTasks()[1].GetStop())
	require.EqualValues(t, 30, orders.GetTasks()[1].GetGracePeriodSeconds())
	require.Nil(t, orders.GetTasks()[1].GetSpec())
	report(fsm.ReportRunning)
	report(fsm.ReportEnded)
	require.Nil(t, book.Update(m.View()), "the agent said itself that it has ended")
	full := session.NewOrderBook("n1", admin.LauncherFor, nil).Update(m.View())
	require.Len(t, full.GetTasks(), 1, "what has ended is not wanted any more")
	require.Equal(t, second.String(), full.GetTasks()[0].GetTask().GetJobId())

	apply(fsm.SetNode{ID: "n1", Action: fsm.NodeForget})
	orders = book.Update(m.View())
	require.NotNil(t, orders, "what ended without the agent it must hear, and stop")
	require.Empty(t, orders.GetTasks())
}
