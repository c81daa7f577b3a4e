package coordinator

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

// of returns the task of an attempt, if it runs here.
func (a *scriptedAgent) of(job string, attempt int32) *scriptedTask {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tasks[fmt.Sprintf("%s/%d/0", job, attempt)]
}

// reach saves a checkpoint and reports a gate.
func (a *scriptedAgent) reach(task *scriptedTask, name string, step int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report(&v1.Report{Task: task.ref, Body: &v1.Report_Checkpoint{Checkpoint: &v1.CheckpointReport{Path: "/c/" + name, Step: step, ManifestDigest: "d" + name, SizeBytes: 1}}})
	a.report(&v1.Report{Task: task.ref, Body: &v1.Report_Gate{Gate: &v1.GateReport{
		Name: name, Prompt: "Go on after " + name + "?", ContextJson: `{"loss": 0.5}`, Assignee: "user:ann",
		Options: []*v1.GateOption{{Id: "go"}, {Id: "stop", Cancels: true}},
	}}})
}

// A training passes 50 gates, and the leader dies at each of them, at another moment each time. While people think, nothing is leased;
// of 20 answers at once one counts; the next attempt goes on from the checkpoint of the gate and knows all answers.
func TestGate_fiftyCyclesUnderKills(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const cycles = 50
		c := startCluster(t, 3, nil)
		agent := c.agent("n1", 4)
		at := c.leader()
		job := c.submit(at, sleeper(4, 1))
		die := func() {
			old := c.leader()
			c.kill(old)
			at = c.leader()
			c.start(old)
		}
		for n := range int32(cycles) {
			name := fmt.Sprintf("gate-%d", n)
			c.eventually("attempt runs", func() bool { return agent.of(job, n+1) != nil })
			task := agent.of(job, n+1)
			if n > 0 {
				require.Equal(t, fmt.Sprintf("/c/gate-%d", n-1), task.spec.GetResumeFrom())
				require.Contains(t, task.spec.GetGatesJson(), fmt.Sprintf(`"gate-%d":{"resolution":"go","resolved_by":"ann","comment":"fine"}`, n-1))
			}
			agent.reach(task, name, int64(n))
			if n%3 == 0 {
				die()
			}
			c.eventually("people are asked, and the job has stopped", func() bool {
				return len(c.checkpoints(at)) == 1 && c.get(at, job).GetStatus() == v1.JobStatus_PAUSED
			})
			if n%3 == 1 {
				die()
			}
			asked := c.checkpoints(at)[0]
			require.Equal(t, []string{job, name, "gate", "user:ann"}, []string{asked.GetJobId(), asked.GetStep(), asked.GetCheckpointType(), asked.GetAssigneeRaw()})
			require.Equal(t, map[string]any{"loss": 0.5}, asked.GetContext().AsInterface())
			require.Equal(t, int32(4), c.awaitNode("n1", v1.NodeState_READY).GetGpusFree(), "no GPU is leased while people think")
			_, err := c.jobs(at).ResumeJob(c.ctx("t1", ""), &v1.ResumeJobRequest{JobId: job})
			require.Equal(t, codes.FailedPrecondition, grpcstatus.Code(err))
			require.ErrorContains(t, err, asked.GetId())

			var won atomic.Int32
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					_, err := c.cores(at).ResolveDecision(c.ctx("t1", "", status.KeyUser, "ann"), &v1.ResolveDecisionRequest{CheckpointId: asked.GetId(), Resolution: "go", Comment: "fine"})
					if err == nil {
						won.Add(1)
					}
				})
			}
			all.Wait()
			require.Equal(t, int32(1), won.Load())
			if n%3 == 2 {
				die()
			}
		}
		c.eventually("the last attempt runs", func() bool { return agent.of(job, cycles+1) != nil })
		agent.end(job, 0)
		c.awaitStatus(at, job, v1.JobStatus_COMPLETED)
		require.Equal(t, int32(cycles+1), c.get(at, job).GetAttempt())
	})
}

func TestGate_anAnswerCancelsTheJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		agent := c.agent("n1", 1)
		at := c.leader()
		job := c.submit(at, sleeper(1, 1))
		c.eventually("it runs", func() bool { return agent.of(job, 1) != nil })
		agent.reach(agent.of(job, 1), "check", 1)
		c.awaitStatus(at, job, v1.JobStatus_PAUSED)
		asked := c.checkpoints(at)[0]
		_, err := c.cores(at).ResolveDecision(c.ctx("t1", "", status.KeyUser, "bob"), &v1.ResolveDecisionRequest{CheckpointId: asked.GetId(), Resolution: "stop"})
		require.Equal(t, codes.PermissionDenied, grpcstatus.Code(err))
		_, err = c.cores(at).ResolveDecision(c.ctx("t2", "", status.KeyUser, "ann"), &v1.ResolveDecisionRequest{CheckpointId: asked.GetId(), Resolution: "stop"})
		require.Equal(t, codes.NotFound, grpcstatus.Code(err))
		require.Equal(t, "cancel", asked.GetExpiryAction())
		why, err := c.jobs(at).ExplainJob(c.ctx("t1", ""), &v1.ExplainJobRequest{JobId: job})
		require.NoError(t, err)
		require.Contains(t, why.String(), "`mind decision resolve "+asked.GetId()+" go|stop`")
		_, err = c.cores(at).ResolveDecision(c.ctx("t1", "", status.KeyUser, "ann"), &v1.ResolveDecisionRequest{CheckpointId: asked.GetId(), Resolution: "stop"})
		require.NoError(t, err)
		got := c.awaitStatus(at, job, v1.JobStatus_CANCELLED)
		require.Contains(t, got.GetReason(), `was answered "stop", which cancels the job`)
	})
}
