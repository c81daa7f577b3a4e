package coordinator

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestJobs_pauseAndResume(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 1)
		at := c.follower()
		id := c.submit(at, sleeper(1, 0))
		c.awaitStatus(at, id, v1.JobStatus_TRAINING)
		resp, err := c.jobs(at).PauseJob(c.ctx("t1", ""), &v1.PauseJobRequest{JobId: id})
		require.NoError(t, err)
		require.Equal(t, v1.StopReason_PAUSE, resp.GetJob().GetStopping())
		c.awaitStatus(at, id, v1.JobStatus_PAUSED)
		resumed, err := c.jobs(at).ResumeJob(c.ctx("t1", ""), &v1.ResumeJobRequest{JobId: id})
		require.NoError(t, err)
		require.Equal(t, v1.JobState_QUEUED, resumed.GetJob().GetState())
		j := c.awaitStatus(at, id, v1.JobStatus_TRAINING)
		require.EqualValues(t, 2, j.GetAttempt())
		a.end(id, 0)
		c.awaitStatus(at, id, v1.JobStatus_COMPLETED)
		_, err = c.jobs(at).ResumeJob(c.ctx("t1", ""), &v1.ResumeJobRequest{JobId: id})
		requireCode(t, codes.FailedPrecondition, err)
		_, err = c.jobs(at).ResumeJob(c.ctx("t1", ""), &v1.ResumeJobRequest{JobId: id, CheckpointId: "latest"})
		requireCode(t, codes.InvalidArgument, err)
	})
}

func TestJobs_retryWithOtherResources(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 4)
		at := c.follower()
		id := c.submit(at, sleeper(1, 0))
		c.awaitStatus(at, id, v1.JobStatus_TRAINING)
		a.end(id, 9)
		c.awaitStatus(at, id, v1.JobStatus_FAILED)
		_, err := c.jobs(at).RetryJob(c.ctx("t1", ""), &v1.RetryJobRequest{JobId: id, ModifyResources: &v1.ResourceConfig{GpuCount: -1}})
		requireCode(t, codes.InvalidArgument, err)
		key := "again"
		for range 2 { // the second call gets the first answer
			resp, err := c.jobs(at).RetryJob(c.ctx("t1", key), &v1.RetryJobRequest{JobId: id, ModifyResources: &v1.ResourceConfig{GpuCount: 4, GpuType: "H100"}})
			require.NoError(t, err)
			require.EqualValues(t, 4, resp.GetJob().GetResourceConfig().GetGpuCount())
		}
		j := c.awaitStatus(at, id, v1.JobStatus_TRAINING)
		require.Len(t, j.GetGpus(), 4)
		require.EqualValues(t, 2, j.GetAttempt())
		_, err = c.jobs(at).CancelJob(c.ctx("t1", key), &v1.CancelJobRequest{JobId: id})
		requireCode(t, codes.AlreadyExists, err)
	})
}

func TestJobs_shareAGPU(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		a := c.agent("n1", 1)
		var ids []string
		for _, f := range []float64{0.5, 0.5, 0.5} {
			req := sleeper(0, 0)
			req.ResourceConfig = &v1.ResourceConfig{GpuFraction: f}
			ids = append(ids, c.submit("c1", req))
		}
		for _, id := range ids[:2] {
			require.Equal(t, []string{"GPU-n1-0"}, c.awaitStatus("c1", id, v1.JobStatus_TRAINING).GetGpus())
			require.InDelta(t, 0.5, a.has(id).GetGpuFraction(), 1e-9)
		}
		c.await("c1", ids[2], func(j *v1.Job) bool {
			return j.GetReason() == "needs 0.5 of one GPU on one node; no GPU has that much left"
		})
		a.end(ids[0], 0)
		c.awaitStatus("c1", ids[2], v1.JobStatus_TRAINING)
	})
}

func TestCluster_whatUsersSeeOfIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.agent("n1", 4)
		at := c.follower()
		running := c.submit(at, sleeper(3, 0))
		c.awaitStatus(at, running, v1.JobStatus_TRAINING)
		first, second := c.submit(at, sleeper(2, 0)), c.submit(at, sleeper(2, 0))
		want := "needs 2 GPUs on one node; most free on a node is 1"
		c.await(at, second, func(j *v1.Job) bool { return j.GetReason() == want && j.GetStatus() == v1.JobStatus_QUEUED })

		explained, err := c.jobs(at).ExplainJob(c.ctx("t1", ""), &v1.ExplainJobRequest{JobId: second})
		require.NoError(t, err)
		require.Equal(t, want, explained.GetReason())
		require.EqualValues(t, 2, explained.GetQueuePosition())
		require.Equal(t, []string{
			"starts at the earliest when " + running + " ends; that time is unknown: set max_runtime_seconds, or wait for a job of that name to complete",
			`ahead of it in queue "default", by priority and age: 1 job`, "ready: 1 node, of which 1 could hold a task of it when empty",
			"free now: 1 GPU of the kind that it needs",
		}, explained.GetDetails())

		queue, err := c.nodes(at).GetQueue(c.ctx("t1", ""), &v1.GetQueueRequest{})
		require.NoError(t, err)
		require.EqualValues(t, 2, queue.GetDepth())
		require.Equal(t, first, queue.GetJobs()[0].GetJobId())
		require.EqualValues(t, 2, queue.GetJobs()[1].GetPosition())
		require.Equal(t, want, queue.GetJobs()[1].GetReason())
		_, err = c.nodes(at).GetQueue(c.ctx("t1", ""), &v1.GetQueueRequest{Queue: "night"})
		requireCode(t, codes.NotFound, err)
		_, err = c.nodes(at).GetQueue(c.ctx("t1", ""), &v1.GetQueueRequest{Limit: 1001})
		requireCode(t, codes.InvalidArgument, err)

		queues, err := c.nodes(at).ListQueues(c.ctx("t1", ""), &v1.ListQueuesRequest{})
		require.NoError(t, err)
		require.Len(t, queues.GetQueues(), 1)
		q := queues.GetQueues()[0]
		require.Equal(t, []int32{2, 1, 3}, []int32{q.GetQueued(), q.GetRunning(), q.GetGpusAllocated()})

		cluster, err := c.nodes(at).GetCluster(c.ctx("t1", ""), &v1.GetClusterRequest{})
		require.NoError(t, err)
		require.EqualValues(t, 4, cluster.GetGpusTotal())
		require.EqualValues(t, 3, cluster.GetGpusAllocated())
		require.InDelta(t, 0.75, cluster.GetGpuAllocation(), 1e-9)
		require.True(t, math.IsNaN(cluster.GetGpuUtilization()), "no agent has said what its GPUs do")
		require.Equal(t, map[string]int32{"RUNNING": 1, "QUEUED": 2}, cluster.GetJobs())
		require.True(t, proto.Equal(&v1.GpuTypeSummary{GpuType: "H100", Total: 4, Free: 1}, cluster.GetGpuTypes()[0]))
		require.Equal(t, c.leader(), cluster.GetLeader())
		require.Len(t, cluster.GetCoordinators(), 3)
		other, err := c.nodes(at).GetCluster(c.ctx("t2", ""), &v1.GetClusterRequest{})
		require.NoError(t, err)
		require.Empty(t, other.GetJobs(), "other tenants' jobs are not counted")
	})
}
