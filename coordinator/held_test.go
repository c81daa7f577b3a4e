package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
)

// A job that waits for its not_before time has no place in the queue, and is counted as held wherever waiting jobs are
// counted.
func TestCluster_heldJobsDoNotWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		ctx := c.ctx("t1", "")
		at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		later := func() *v1.SubmitJobRequest {
			req := sleeper(1, 0)
			req.SchedulingConfig = &v1.SchedulingConfig{NotBefore: call.Time(at.UnixNano()), Priority: new(int32)}
			*req.SchedulingConfig.Priority = 10
			return req
		}
		held := c.submit("c1", later())
		first, second := c.submit("c1", sleeper(1, 0)), c.submit("c1", sleeper(1, 0))
		_, err := c.jobs("c1").SubmitJob(c.ctx("t2", ""), later())
		require.NoError(t, err)
		_, err = c.nodes("c1").PutQueue(ctx, &v1.PutQueueRequest{Name: "other"})
		require.NoError(t, err)

		seen := c.awaitStatus("c1", held, v1.JobStatus_QUEUED)
		require.True(t, seen.GetHeld())
		require.Nil(t, seen.QueuePosition)
		require.Equal(t, "held until "+at.Format(time.RFC3339)+" (not_before)", seen.GetReason())
		for i, id := range []string{first, second} {
			j := c.get("c1", id)
			require.False(t, j.GetHeld())
			require.EqualValues(t, i+1, j.GetQueuePosition())
		}
		explained, err := c.jobs("c1").ExplainJob(ctx, &v1.ExplainJobRequest{JobId: held})
		require.NoError(t, err)
		require.Nil(t, explained.QueuePosition)
		require.Equal(t, seen.GetReason(), explained.GetReason())
		require.Empty(t, explained.GetDetails())

		listed, err := c.jobs("c1").ListJobs(ctx, &v1.ListJobsRequest{Status: []v1.JobStatus_Value{v1.JobStatus_QUEUED, v1.JobStatus_PENDING}, OrderBy: "created_at"})
		require.NoError(t, err)
		require.Len(t, listed.GetJobs(), 3)
		require.True(t, listed.GetJobs()[0].GetHeld())
		require.Nil(t, listed.GetJobs()[0].QueuePosition)

		for queue, want := range map[string][2]int32{"": {2, 1}, "default": {2, 1}, "other": {0, 0}} {
			q, err := c.nodes("c1").GetQueue(ctx, &v1.GetQueueRequest{Queue: queue})
			require.NoError(t, err)
			require.Equal(t, want, [2]int32{q.GetDepth(), q.GetHeld()}, queue)
			require.Len(t, q.GetJobs(), int(want[0]))
		}
		queues, err := c.nodes("c1").ListQueues(ctx, &v1.ListQueuesRequest{})
		require.NoError(t, err)
		require.Equal(t, [2]int32{2, 1}, [2]int32{queues.GetQueues()[0].GetQueued(), queues.GetQueues()[0].GetHeld()})
		cluster, err := c.nodes("c1").GetCluster(ctx, &v1.GetClusterRequest{})
		require.NoError(t, err)
		require.Equal(t, map[string]int32{"QUEUED": 2, "HELD": 1}, cluster.GetJobs())
		require.EqualValues(t, 2, c.metric("c1", `mind_jobs{queue="default",state="QUEUED"}`))
		require.EqualValues(t, 2, c.metric("c1", `mind_jobs{queue="default",state="HELD"}`), "of all tenants")

		_, err = c.jobs("c1").PauseJob(ctx, &v1.PauseJobRequest{JobId: held})
		require.NoError(t, err)
		require.False(t, c.get("c1", held).GetHeld())
	})
}
