package coordinator

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

func TestCluster_anyReplicaTakesAnyCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		follower := c.follower()
		var header, trailer metadata.MD
		resp, err := c.jobs(follower).SubmitJob(c.ctx("t1", ""), sleeper(1, 0), grpc.Header(&header), grpc.Trailer(&trailer))
		require.NoError(t, err)
		require.NotZero(t, indexIn(trailerOf(trailer, status.KeyIndex)))
		require.Equal(t, trailerOf(trailer, status.KeyIndex), trailerOf(header, status.KeyIndex))
		leader := c.leader()
		require.Equal(t, leader+"="+c.members[leader].config.GRPCAddr, trailerOf(trailer, status.KeyLeader))
		for _, at := range c.ids {
			j := c.get(at, resp.GetJobId()) // At once, because reads are linearizable at every replica.
			require.Equal(t, "sleeper", j.GetName())
			require.Equal(t, []string{"sleep", "1000"}, j.GetCommandConfig().GetArgv())
		}
		j := c.await(follower, resp.GetJobId(), func(j *v1.Job) bool {
			return j.GetStatus() == v1.JobStatus_QUEUED && j.GetReason() == "no node is ready"
		})
		require.EqualValues(t, 1, j.GetQueuePosition())
	})
}

func TestCluster_jobRunsAndEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 8)
		at := c.follower()
		id := c.submit(at, sleeper(2, 0))
		j := c.awaitStatus(at, id, v1.JobStatus_TRAINING)
		require.Equal(t, []string{"n1"}, j.GetNodes())
		require.Equal(t, []string{"GPU-n1-0", "GPU-n1-1"}, j.GetGpus())
		spec := a.has(id)
		require.Equal(t, []int32{0, 1}, spec.GetGpus())
		require.Equal(t, "10.0.1.1", spec.GetPeers()[0].GetHost(), "where the agent listens")
		require.Equal(t, "t1", spec.GetTenantId())
		require.NotZero(t, spec.GetMasterPort())
		a.end(id, 0)
		j = c.awaitStatus(at, id, v1.JobStatus_COMPLETED)
		require.EqualValues(t, 0, j.GetExitCode())
		require.NotNil(t, j.GetFinishedAt())

		failing := c.submit(at, sleeper(1, 0))
		c.awaitStatus(at, failing, v1.JobStatus_TRAINING)
		a.end(failing, 7)
		j = c.awaitStatus(at, failing, v1.JobStatus_FAILED)
		require.EqualValues(t, 7, j.GetExitCode())
		require.Equal(t, v1.ErrorType_EXIT_NONZERO, j.GetErrorType())
		_, err := c.jobs(at).CancelJob(c.ctx("t1", ""), &v1.CancelJobRequest{JobId: failing})
		requireCode(t, codes.FailedPrecondition, err)
	})
}

func TestCluster_cancelStopsTheTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 1)
		at := c.follower()
		running := c.submit(at, sleeper(1, 0))
		waiting := c.submit(at, sleeper(1, 0))
		c.awaitStatus(at, running, v1.JobStatus_TRAINING)
		resp, err := c.jobs(at).CancelJob(c.ctx("t1", ""), &v1.CancelJobRequest{JobId: running, Reason: "enough"})
		require.NoError(t, err)
		require.Equal(t, v1.StopReason_CANCEL, resp.GetJob().GetStopping())
		c.awaitStatus(at, running, v1.JobStatus_CANCELLED)
		c.awaitStatus(at, waiting, v1.JobStatus_TRAINING)
		a.end(waiting, 0)
		c.awaitStatus(at, waiting, v1.JobStatus_COMPLETED)
		for range 2 {
			queued := c.submit(at, patient(sleeper(2, 0))) // more GPUs than the cluster has
			resp, err = c.jobs(at).CancelJob(c.ctx("t1", ""), &v1.CancelJobRequest{JobId: queued})
			require.NoError(t, err)
			require.Equal(t, v1.JobStatus_CANCELLED, resp.GetJob().GetStatus())
		}
	})
}

func TestCluster_gangFailsAsOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a1, a2 := c.agent("n1", 8), c.agent("n2", 8)
		at := c.follower()
		gang := c.submit(at, sleeper(16, 2))
		j := c.awaitStatus(at, gang, v1.JobStatus_TRAINING)
		require.Equal(t, []string{"n1", "n2"}, j.GetNodes())
		require.Equal(t, a1.has(gang).GetMasterPort(), a2.has(gang).GetMasterPort())
		a2.end(gang, 3)
		j = c.awaitStatus(at, gang, v1.JobStatus_FAILED)
		require.EqualValues(t, 3, j.GetExitCode(), "what followed does not hide what came first")
		node := c.awaitNode("n1", v1.NodeState_READY)
		require.EqualValues(t, 8, node.GetGpusFree())
	})
}

func TestCluster_nodeCountFollowsTheInventory(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.agent("n1", 8)
		c.agent("n2", 8)
		training := trainingJob()
		training.ResourceConfig.GpuCount = 16
		id := c.submit(c.follower(), training)
		require.Len(t, c.awaitStatus(c.follower(), id, v1.JobStatus_TRAINING).GetNodes(), 2)
	})
}

func TestCluster_lifeGoesOnWithoutTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 8)
		first := c.leader()
		running := c.submit(first, sleeper(1, 0))
		c.awaitStatus(first, running, v1.JobStatus_TRAINING)
		c.kill(first)
		at := c.running()[0]
		second := c.submit(at, sleeper(1, 0))
		require.NotEqual(t, first, c.leader())
		c.awaitStatus(at, second, v1.JobStatus_TRAINING)
		require.Equal(t, v1.JobStatus_TRAINING, c.get(at, running).GetStatus(), "the job did not notice")
		a.end(running, 0)
		c.awaitStatus(at, running, v1.JobStatus_COMPLETED)
		c.start(first)
		c.leader()
		require.Equal(t, v1.JobStatus_COMPLETED, c.await(first, running, func(*v1.Job) bool { return true }).GetStatus())
		a.mu.Lock()
		defer a.mu.Unlock()
		require.Empty(t, a.tasks[running+"/2/0"], "no second attempt")
	})
}

func TestCluster_sameKeySameJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		leader := c.leader()
		ids := map[string]string{}
		for i := range 20 {
			key := fmt.Sprintf("key-%d", i)
			resp, err := c.jobs(c.ids[i%3]).SubmitJob(c.ctx("t1", key), sleeper(1, 0))
			require.NoError(t, err)
			ids[key] = resp.GetJobId()
		}
		c.kill(leader)
		at := c.running()[0]
		for key, id := range ids {
			resp, err := c.jobs(at).SubmitJob(c.ctx("t1", key), sleeper(1, 0))
			require.NoError(t, err)
			require.Equal(t, id, resp.GetJobId())
			require.Equal(t, v1.JobStatus_PENDING, resp.GetStatus())
		}
		_, err := c.jobs(at).SubmitJob(c.ctx("t1", "key-1"), sleeper(2, 0))
		requireCode(t, codes.AlreadyExists, err)
		other, err := c.jobs(at).SubmitJob(c.ctx("t2", "key-1"), sleeper(2, 0))
		require.NoError(t, err, "keys are the tenant's")
		require.NotEqual(t, ids["key-1"], other.GetJobId())
		list, err := c.jobs(at).ListJobs(c.ctx("t1", ""), &v1.ListJobsRequest{})
		require.NoError(t, err)
		require.EqualValues(t, 20, list.GetTotalCount())
	})
}

func TestCluster_oneAloneReadsStaleAndRefusesWrites(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, func(config *Config) { config.Timers.LeaderWait = 300 * time.Millisecond })
		id := c.submit(c.leader(), sleeper(1, 0))
		alone := c.follower()
		c.get(alone, id)
		for _, other := range c.ids {
			if other != alone {
				c.kill(other)
			}
		}
		var trailer metadata.MD
		// The replica may believe for a moment that it leads. Proposals have an unknown outcome then.
		for outcome := status.Unknown; outcome == status.Unknown; outcome = trailerOf(trailer, status.KeyOutcome) {
			_, err := c.jobs(alone).SubmitJob(c.ctx("t1", ""), sleeper(1, 0), grpc.Trailer(&trailer))
			requireCode(t, codes.Unavailable, err)
			require.NotEmpty(t, trailerOf(trailer, status.KeyOutcome))
		}
		_, err := c.jobs(alone).GetJob(c.ctx("t1", ""), &v1.GetJobRequest{JobId: id})
		requireCode(t, codes.Unavailable, err)
		resp, err := c.jobs(alone).GetJob(c.ctx("t1", "", status.KeyConsistency, status.Stale), &v1.GetJobRequest{JobId: id})
		require.NoError(t, err)
		require.Equal(t, id, resp.GetJob().GetJobId())
		peers, err := c.operators(alone).ListPeers(c.ctx("", ""), &v1.ListPeersRequest{})
		require.NoError(t, err)
		require.Len(t, peers.GetPeers(), 3)
		require.Equal(t, alone, peers.GetAnsweredBy())
	})
}

// A caller whose time ends before the wait for a leader is also told in time that the write was not sent.
func TestCluster_withoutALeaderAWriteIsToldThatNothingWasDone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		alone := c.follower()
		for _, other := range c.ids {
			if other != alone {
				c.kill(other)
			}
		}
		c.eventually("no write was told that nothing was done", func() bool {
			ctx, cancel := context.WithTimeout(c.ctx("t1", ""), longstop/20)
			defer cancel()
			var trailer metadata.MD
			_, err := c.jobs(alone).SubmitJob(ctx, sleeper(1, 0), grpc.Trailer(&trailer))
			require.Error(t, err)
			return trailerOf(trailer, status.KeyOutcome) == status.NotSent
		})
	})
}

func TestCluster_aForwardedCallGoesNoFurther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		var trailer metadata.MD
		_, err := c.jobs(c.follower()).SubmitJob(c.ctx("t1", "", status.KeyForwarded, "1"), sleeper(1, 0), grpc.Trailer(&trailer))
		requireCode(t, codes.Unavailable, err)
		require.Equal(t, status.NotSent, trailerOf(trailer, status.KeyOutcome))
		require.NotEmpty(t, trailerOf(trailer, status.KeyLeader))
	})
}

func TestCluster_tenantsSeeOnlyTheirOwn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 2)
		at := c.follower()
		mine := c.submit(at, sleeper(1, 0))
		c.awaitStatus(at, mine, v1.JobStatus_TRAINING)
		queued := c.submit(at, sleeper(2, 0))
		a.write(mine, 1, "secret line")
		theirs := c.ctx("t2", "")
		jobs := c.jobs(at)
		calls := map[string]func() error{
			"get":    func() error { _, err := jobs.GetJob(theirs, &v1.GetJobRequest{JobId: mine}); return err },
			"cancel": func() error { _, err := jobs.CancelJob(theirs, &v1.CancelJobRequest{JobId: mine}); return err },
			"pause":  func() error { _, err := jobs.PauseJob(theirs, &v1.PauseJobRequest{JobId: mine}); return err },
			"resume": func() error { _, err := jobs.ResumeJob(theirs, &v1.ResumeJobRequest{JobId: mine}); return err },
			"retry":  func() error { _, err := jobs.RetryJob(theirs, &v1.RetryJobRequest{JobId: mine}); return err },
			"retry with other resources": func() error {
				_, err := jobs.RetryJob(theirs, &v1.RetryJobRequest{JobId: mine, ModifyResources: &v1.ResourceConfig{GpuCount: 2}})
				return err
			},
			"explain": func() error { _, err := jobs.ExplainJob(theirs, &v1.ExplainJobRequest{JobId: mine}); return err },
			"series":  func() error { _, err := jobs.GetJobSeries(theirs, &v1.GetJobSeriesRequest{JobId: mine}); return err },
			"metrics": func() error { _, err := jobs.GetJobMetrics(theirs, &v1.GetJobMetricsRequest{JobId: mine}); return err },
			"checkpoints": func() error {
				_, err := jobs.ListCheckpoints(theirs, &v1.ListCheckpointsRequest{JobId: mine})
				return err
			},
			"logs": func() error {
				stream, err := jobs.StreamJobLogs(theirs, &v1.StreamJobLogsRequest{JobId: mine})
				require.NoError(t, err)
				_, err = stream.Recv()
				return err
			},
			"metrics stream": func() error {
				stream, err := jobs.StreamJobMetrics(theirs, &v1.StreamJobMetricsRequest{JobId: mine})
				require.NoError(t, err)
				_, err = stream.Recv()
				return err
			},
		}
		for name, do := range calls {
			err := do()
			requireCode(t, codes.NotFound, err, name)
			require.Equal(t, "there is no job "+mine, grpcstatus.Convert(err).Message(), "%s: as if it did not exist", name)
		}
		list, err := jobs.ListJobs(theirs, &v1.ListJobsRequest{})
		require.NoError(t, err)
		require.Zero(t, list.GetTotalCount())
		queue, err := c.nodes(at).GetQueue(theirs, &v1.GetQueueRequest{})
		require.NoError(t, err)
		require.Empty(t, queue.GetJobs())
		require.Zero(t, queue.GetDepth())
		node, err := c.nodes(at).GetNode(theirs, &v1.GetNodeRequest{NodeId: "n1"})
		require.NoError(t, err)
		require.Empty(t, node.GetNode().GetJobIds())
		require.EqualValues(t, 1, node.GetNode().GetGpusFree())
		for _, g := range node.GetNode().GetGpus() {
			require.Empty(t, g.GetJobId())
		}
		own, err := c.nodes(at).GetNode(c.ctx("t1", ""), &v1.GetNodeRequest{NodeId: "n1"})
		require.NoError(t, err)
		require.Equal(t, []string{mine}, own.GetNode().GetJobIds())
		require.Equal(t, mine, own.GetNode().GetGpus()[0].GetJobId())
		require.Equal(t, v1.JobStatus_QUEUED, c.awaitStatus(at, queued, v1.JobStatus_QUEUED).GetStatus())
	})
}

func TestCluster_whoMayCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.ids[0]
		wrong := metadata.NewOutgoingContext(context.Background(), metadata.Pairs(status.KeySecret, "guess", status.KeyTenant, "t1"))
		_, err := c.jobs(at).ListJobs(wrong, &v1.ListJobsRequest{})
		requireCode(t, codes.Unauthenticated, err)
		_, err = c.operators(at).ListPeers(context.Background(), &v1.ListPeersRequest{})
		requireCode(t, codes.Unauthenticated, err)
		_, err = c.jobs(at).ListJobs(c.ctx("", ""), &v1.ListJobsRequest{})
		requireCode(t, codes.InvalidArgument, err)
		_, err = c.jobs(at).SubmitJob(c.ctx("t1", ""), &v1.SubmitJobRequest{})
		requireCode(t, codes.InvalidArgument, err)
		require.Contains(t, err.Error(), "command_config")
		for _, bad := range []string{"", "job_", "job_0", "nonsense", "job_zzzzzzzzzzzz"} {
			_, err = c.jobs(at).GetJob(c.ctx("t1", ""), &v1.GetJobRequest{JobId: bad})
			requireCode(t, codes.NotFound, err)
		}
	})
}

func TestCluster_batchHasOneResultEach(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, func(config *Config) { config.Limits.EntryBytes = 4 << 10 })
		req := &v1.SubmitJobsRequest{}
		for i := range 50 {
			j := sleeper(1, 0)
			j.Name = fmt.Sprintf("job-%d", i)
			if i%10 == 3 {
				j.CommandConfig.Cwd = "relative"
			}
			req.Jobs = append(req.Jobs, j)
		}
		at := c.follower()
		resp, err := c.jobs(at).SubmitJobs(c.ctx("t1", "batch"), req)
		require.NoError(t, err)
		require.Len(t, resp.GetResults(), 50)
		for i, r := range resp.GetResults() {
			if i%10 == 3 {
				require.EqualValues(t, codes.InvalidArgument, r.GetCode())
				require.Contains(t, r.GetMessage(), "cwd")
				continue
			}
			require.Equal(t, req.GetJobs()[i].GetName(), c.get(at, r.GetJob().GetJobId()).GetName())
		}
		again, err := c.jobs(at).SubmitJobs(c.ctx("t1", "batch"), req)
		require.NoError(t, err)
		require.True(t, proto.Equal(resp, again), "the key of the call covers each of its jobs")
		_, err = c.jobs(at).SubmitJobs(c.ctx("t1", ""), &v1.SubmitJobsRequest{})
		requireCode(t, codes.InvalidArgument, err)
		_, err = c.jobs(at).SubmitJobs(c.ctx("t1", ""), &v1.SubmitJobsRequest{Jobs: make([]*v1.SubmitJobRequest, 1001)})
		requireCode(t, codes.InvalidArgument, err)
	})
}
