package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

func (w *world) nodeState(id string) v1.NodeState_Value {
	n, ok := w.m.View().Node(id)
	require.True(w.t, ok)
	return n.State
}

func (w *world) setNode(c nodeverbs.SetNode) *work.Node {
	r := do[nodeverbs.NodeResult](w, c)
	require.Nil(w.t, r.Refusal)
	return r.Node
}

func TestNode_newBootEndsItsTasks(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	n := gang(2)
	n.Retry = work.RetryPolicy{On: work.RetryInfrastructure}
	id := w.submit(n)
	w.place(id, "n1", "n2")
	w.run(id)
	w.node("n1", 8)
	require.Equal(t, running, w.job(id).State, "the same boot changes nothing")
	w.do(nodeverbs.RegisterNode{Node: testNode("n1", "boot2", 8)})
	j := w.job(id)
	require.Equal(t, v1.StopReason_GANG, j.Stop)
	require.Equal(t, v1.ErrorType_NODE_LOST, j.Ending.ErrorType)
	require.Nil(t, j.Tasks[0].ExitCode, "nobody knows how it ended")
	require.Equal(t, 2, w.m.View().LeaseCount())
	w.report(id, 1, jobverbs.ReportEnded, exit(143))
	j = w.job(id)
	require.Equal(t, queued, j.State)
	require.EqualValues(t, 1, j.Retries.NodeLost)
	// One that is not restartable ends with its node.
	n.Retry.Never = true
	id = w.submit(n)
	w.place(id, "n1", "n2")
	w.do(nodeverbs.RegisterNode{Node: testNode("n1", "boot3", 8)})
	w.report(id, 1, jobverbs.ReportEnded, exit(143))
	require.Equal(t, lostJob, w.job(id).State)
	require.Equal(t, v1.ErrorType_NODE_LOST, w.job(id).ErrorType)
}

func TestNode_unreachableKeepsItsTasks(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(oneGPU())
	w.place(id, "n1")
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeUnreachable, Reason: "no renewal for 3 s"})
	require.Equal(t, v1.NodeState_UNREACHABLE, w.nodeState("n1"))
	require.Equal(t, allocated, w.job(id).State)
	// Its late reports are still believed: it holds the lease.
	require.Equal(t, 1, w.report(id, 0, jobverbs.ReportRunning).Applied)
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeReachable})
	require.Equal(t, v1.NodeState_READY, w.nodeState("n1"))
}

func TestNode_drainWaitsForItsTasks(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(oneGPU())
	w.place(id, "n1")
	w.run(id)
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain, Deadline: int64(time.Minute)})
	require.Equal(t, v1.NodeState_DRAINING, w.nodeState("n1"))
	due, ok := w.m.View().NextDue()
	require.True(t, ok)
	require.Equal(t, w.now+int64(time.Minute), due)
	w.do(clusterverbs.Tick{})
	require.Zero(t, w.job(id).Stop)
	w.later(time.Minute)
	w.do(clusterverbs.Tick{})
	require.Equal(t, v1.StopReason_DRAIN, w.job(id).Stop)
	due, ok = w.m.View().NextDue()
	require.True(t, ok)
	require.Equal(t, w.m.View().Budget("acme").Ends(), due, "nothing but the end of the month")
	w.report(id, 0, jobverbs.ReportEnded, exit(143))
	require.Equal(t, v1.NodeState_DRAINED, w.nodeState("n1"))
	j := w.job(id)
	require.Equal(t, queued, j.State, "a drain is no failure: it takes no retry")
	require.EqualValues(t, 1, j.Retries.Drained)
	require.Zero(t, j.Spent())
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeEnable})
	require.Equal(t, v1.NodeState_READY, w.nodeState("n1"))
}

func TestNode_forcedDrainStopsAtOnce(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(oneGPU())
	w.place(id, "n1")
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain, Force: true})
	require.Equal(t, v1.StopReason_DRAIN, w.job(id).Stop)
}

func TestNode_tasksThatItStoppedItselfGoBackToTheQueue(t *testing.T) {
	for name, end := range map[string][]func(*jobverbs.TaskReport){
		"by a signal":                {exit(143), failed(v1.ErrorType_DRAINED, "the agent was stopped")},
		"though the program exits 0": {exit(0), failed(v1.ErrorType_DRAINED, "the agent was stopped")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			id := w.submit(oneGPU())
			w.place(id, "n1")
			w.run(id)
			w.report(id, 0, jobverbs.ReportEnded, end...)
			j := w.job(id)
			require.Equal(t, v1.JobState_QUEUED, j.State)
			require.EqualValues(t, 1, j.Retries.Drained)
			require.Zero(t, j.Spent(), "it costs the job no retry")
			require.Zero(t, w.m.View().LeaseCount())
		})
	}
}

func TestNode_forgottenTakesItsTasksWithIt(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	solo, both := w.submit(oneGPU()), w.submit(gang(2))
	w.place(solo, "n1")
	w.place(both, "n1", "n2")
	w.do(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeForget})
	require.Equal(t, lostJob, w.job(solo).State)
	require.Equal(t, v1.StopReason_GANG, w.job(both).Stop)
	_, ok := w.m.View().Node("n1")
	require.False(t, ok)
	w.report(both, 1, jobverbs.ReportEnded, exit(143))
	require.Equal(t, lostJob, w.job(both).State)
	require.Zero(t, w.m.View().LeaseCount())
	r := do[nodeverbs.NodeResult](w, nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeForget})
	require.Equal(t, kernel.CodeNotFound, r.Refusal.Code)
}

func TestNode_vanishedGPUsAreRemembered(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	inventory := testNode("n1", "", 4).GPUs[:3]
	n := w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeHealth, GPUs: inventory})
	require.Len(t, n.GPUs, 4)
	require.Equal(t, v1.GpuHealth_VANISHED, n.GPUs[3].Health)
	use := w.m.View().Use("n1")
	require.Equal(t, uint64(0b111), work.Eligible(n, &use, work.Shape{GPUs: 1}))
	require.Equal(t, v1.GpuHealth_HEALTHY, w.node("n1", 4).GPUs[3].Health, "it is back")
}

func TestNode_badInventoryIsRefused(t *testing.T) {
	w := newWorld(t)
	twice := testNode("n1", "b", 2)
	twice.GPUs[1].Index = 0
	far := testNode("n1", "b", 1)
	far.GPUs[0].Index = work.MaxGPUs
	for _, n := range []work.Node{twice, far, {}} {
		require.Equal(t, kernel.CodeInvalidArgument, do[nodeverbs.NodeResult](w, nodeverbs.RegisterNode{Node: n}).Refusal.Code)
	}
	require.Zero(t, w.m.View().NodeCount())
}

func TestTick_givesUpOnWhatNothingWouldReplace(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	plain, retried := oneGPU(), oneGPU()
	plain.GiveUpAfter, retried.GiveUpAfter = int64(time.Hour), int64(time.Hour)
	retried.Retry = work.RetryPolicy{Max: 1, On: work.RetryNodeLost}
	a, b := w.submit(plain), w.submit(retried)
	w.place(a, "n1")
	w.place(b, "n1")
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeUnreachable})
	w.later(time.Hour - 1)
	require.Zero(t, do[clusterverbs.TickResult](w, clusterverbs.Tick{Settled: true}).GaveUp)
	w.later(1)
	require.Zero(t, do[clusterverbs.TickResult](w, clusterverbs.Tick{}).GaveUp, "a new leader waits for nodes that may come back")
	require.Zero(t, do[clusterverbs.TickResult](w, clusterverbs.Tick{Settled: true, Renewing: []string{"n1"}}).GaveUp, "its peers say that it is alive")
	require.Equal(t, 1, do[clusterverbs.TickResult](w, clusterverbs.Tick{Settled: true}).GaveUp)
	require.Equal(t, lostJob, w.job(a).State)
	require.Equal(t, []work.AwaitedTask{{
		Node: "n1", Attempt: 1, Token: w.job(a).Token, Loss: work.Loss{How: work.LossGivenUp},
	}}, w.job(a).Awaits, "a retry must not start it twice")
	require.Equal(t, allocated, w.job(b).State, "that takes a majority of the coordinators")
}
