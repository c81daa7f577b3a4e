package coordinator

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

// checkpoint reports a checkpoint of the newest task of a job.
func (a *scriptedAgent) checkpoint(job string, step int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, task := range a.tasks {
		if task.ref.GetJobId() == job && !task.ended {
			a.report(&v1.Report{Task: task.ref, Body: &v1.Report_Checkpoint{Checkpoint: &v1.CheckpointReport{Path: "/c/1", Step: step, ManifestDigest: "d", SizeBytes: 1}}})
		}
	}
}

func TestDrain_previewDoesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 4)
		at := c.follower()
		saved, fresh := c.submit(at, sleeper(1, 0)), c.submit(at, sleeper(1, 0))
		limited := sleeper(1, 0)
		limited.SchedulingConfig = &v1.SchedulingConfig{MaxRuntimeSeconds: 3600}
		ends := c.submit(at, limited)
		others, err := c.jobs(at).SubmitJob(c.ctx("t2", ""), sleeper(1, 0))
		require.NoError(t, err)
		for _, id := range []string{saved, fresh, ends} {
			c.awaitStatus(at, id, v1.JobStatus_TRAINING)
		}
		c.eventually("the job of the other tenant never runs", func() bool {
			return c.getFor("t2", at, others.GetJobId()).GetStatus() == v1.JobStatus_TRAINING
		})
		a.checkpoint(saved, 100)
		ckpt := c.await(at, saved, func(j *v1.Job) bool { return j.GetLastCheckpointId() != "" }).GetLastCheckpointId()

		preview := func(req *v1.DrainNodeRequest) (map[string]*v1.DrainEffect, *v1.DrainEffect) {
			req.NodeId, req.DryRun = "n1", true
			resp, err := c.nodes(at).DrainNode(c.ctx("t1", ""), req)
			require.NoError(t, err)
			require.Equal(t, v1.NodeState_READY, resp.GetNode().GetState(), "nothing happened")
			require.Len(t, resp.GetEffects(), 4)
			mine, theirs := map[string]*v1.DrainEffect{}, (*v1.DrainEffect)(nil)
			for _, e := range resp.GetEffects() {
				if e.GetJobId() == "" {
					require.Empty(t, e.GetName())
					require.Empty(t, e.GetResumesFrom())
					theirs = e
					continue
				}
				require.Equal(t, "sleeper", e.GetName())
				mine[e.GetJobId()] = e
			}
			require.Len(t, mine, 3)
			return mine, theirs
		}

		mine, theirs := preview(&v1.DrainNodeRequest{})
		for _, e := range append([]*v1.DrainEffect{theirs}, mine[saved], mine[fresh], mine[ends]) {
			require.Equal(t, "runs to its end", e.GetEffect())
			require.Nil(t, e.GetStopsAt())
			require.Empty(t, e.GetResumesFrom())
		}

		// Only operators see the number of all tasks that a drain stops. The call is forwarded to the leader.
		for tasks, ctx := range map[int32]context.Context{3: c.ctx("t1", ""), 4: c.ctx("t1", "", status.KeyOperator, "1")} {
			resp, err := c.nodes(at).DrainNode(ctx, &v1.DrainNodeRequest{NodeId: "n1", DryRun: true})
			require.NoError(t, err)
			require.Equal(t, tasks, resp.GetNode().GetTasks())
		}

		before := time.Now()
		mine, theirs = preview(&v1.DrainNodeRequest{DeadlineSeconds: 7200})
		require.Equal(t, "is stopped at the deadline and requeued", theirs.GetEffect())
		require.Equal(t, "is stopped at the deadline and requeued", mine[fresh].GetEffect())
		require.WithinRange(t, mine[fresh].GetStopsAt().AsTime(), before.Add(7200*time.Second).Add(-longstop), time.Now().Add(7200*time.Second).Add(longstop))
		require.Equal(t, ckpt, mine[saved].GetResumesFrom())
		require.Empty(t, mine[fresh].GetResumesFrom())
		require.Equal(t, "runs to its end", mine[ends].GetEffect(), "its own time limit comes first")

		mine, theirs = preview(&v1.DrainNodeRequest{Force: true})
		require.Equal(t, "is stopped now and requeued", theirs.GetEffect())
		require.Equal(t, "is stopped now and requeued", mine[saved].GetEffect())
		require.NotNil(t, mine[saved].GetStopsAt())
		require.Equal(t, ckpt, mine[saved].GetResumesFrom())

		_, err = c.nodes(at).DrainNode(c.ctx("t1", ""), &v1.DrainNodeRequest{NodeId: "n9", DryRun: true})
		requireCode(t, codes.NotFound, err)
		_, err = c.nodes(at).DrainNode(c.ctx("t1", ""), &v1.DrainNodeRequest{NodeId: "n1", DryRun: true, DeadlineSeconds: -1})
		requireCode(t, codes.InvalidArgument, err)
		for id, e := range mine {
			require.Equal(t, v1.JobStatus_TRAINING, c.get(at, id).GetStatus(), e)
		}
	})
}

func TestDrain_deadlineIsShownAndKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		c.agent("n1", 1)
		id := c.submit("c1", sleeper(1, 0))
		c.awaitStatus("c1", id, v1.JobStatus_TRAINING)
		resp, err := c.nodes("c1").DrainNode(c.ctx("t1", ""), &v1.DrainNodeRequest{NodeId: "n1", DeadlineSeconds: 1, Reason: "new fans"})
		require.NoError(t, err)
		require.Equal(t, v1.NodeState_DRAINING, resp.GetNode().GetState(), "it is not empty yet")
		require.NotNil(t, resp.GetNode().GetDrainDeadline())
		require.Len(t, resp.GetEffects(), 1)
		explained, err := c.jobs("c1").ExplainJob(c.ctx("t1", ""), &v1.ExplainJobRequest{JobId: id})
		require.NoError(t, err)
		require.Equal(t, v1.JobState_RUNNING, explained.GetState())
		require.NotEmpty(t, explained.GetDetails())
		require.Contains(t, explained.GetDetails()[0], "is being drained: new fans; it is stopped at")
		resp, err = c.nodes("c1").DrainNode(c.ctx("t1", ""), &v1.DrainNodeRequest{NodeId: "n1", DeadlineSeconds: 2})
		require.NoError(t, err)
		require.Equal(t, "new fans", resp.GetNode().GetReason(), "another deadline takes no reason away")
		audit, err := c.auditLog("c1").ListAuditRecords(c.ctx("t1", ""), &v1.ListAuditRecordsRequest{Action: "node.drain"})
		require.NoError(t, err)
		require.Len(t, audit.GetRecords(), 2)
		require.Equal(t, "deadline 2s: new fans", audit.GetRecords()[0].GetMessage())
		require.Equal(t, "deadline 1s: new fans", audit.GetRecords()[1].GetMessage())
		n := c.awaitNode("n1", v1.NodeState_DRAINED)
		require.Zero(t, n.GetTasks())
		require.Equal(t, "new fans", n.GetReason())
		c.await("c1", id, func(j *v1.Job) bool {
			return j.GetState() == v1.JobState_QUEUED && j.GetRetries().GetDrained() == 1
		})
	})
}

func TestForget_refusesWhatMayBeAlive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 1)
		at := c.follower()
		id := c.submit(at, notRestartable(1))
		c.awaitStatus(at, id, v1.JobStatus_TRAINING)
		_, err := c.nodes(at).ForgetNode(c.ctx("t1", ""), &v1.ForgetNodeRequest{NodeId: "n1"})
		requireCode(t, codes.FailedPrecondition, err)
		require.ErrorContains(t, err, "stop its agent")
		_, err = c.nodes(at).ForgetNode(c.ctx("t1", ""), &v1.ForgetNodeRequest{NodeId: "n9"})
		requireCode(t, codes.NotFound, err)

		a.close()
		n := c.awaitNode("n1", v1.NodeState_UNREACHABLE)
		require.NotNil(t, n.GetUnreachableSince())
		explained, err := c.jobs(at).ExplainJob(c.ctx("t1", ""), &v1.ExplainJobRequest{JobId: id})
		require.NoError(t, err)
		require.Contains(t, explained.GetReason(), "node n1 is unreachable since")
		resp, err := c.nodes(at).DrainNode(c.ctx("t1", ""), &v1.DrainNodeRequest{NodeId: "n1", DryRun: true, Force: true})
		require.NoError(t, err)
		require.Equal(t, "is stopped when the node is back, or lost, and is over: it is not restartable", resp.GetEffects()[0].GetEffect())

		_, err = c.nodes(at).ForgetNode(c.ctx("t1", ""), &v1.ForgetNodeRequest{NodeId: "n1"})
		require.NoError(t, err)
		j := c.awaitStatus(at, id, v1.JobStatus_FAILED)
		require.Equal(t, v1.ErrorType_NODE_LOST, j.GetErrorType())
		require.Contains(t, j.GetErrorMessage(), "forgotten by an operator")
		_, err = c.nodes(at).GetNode(c.ctx("t1", ""), &v1.GetNodeRequest{NodeId: "n1"})
		requireCode(t, codes.NotFound, err)
		_, err = c.nodes(at).ForgetNode(c.ctx("t1", ""), &v1.ForgetNodeRequest{NodeId: "n1"})
		requireCode(t, codes.NotFound, err)
	})
}
