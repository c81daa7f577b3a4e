package coordinator

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// A job that the nodes, the queue or the quota could never hold is refused, unless it allows waiting. Nodes that are
// away, drained or unhealthy count; forgotten nodes do not.
func TestCluster_whatCanNeverRunIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		first := c.submit(at, sleeper(8, 0))
		require.NotEmpty(t, first, "a cluster without nodes refuses nothing: they are about to come")

		c.agent("n1", 2)
		large := c.agent("n2", 4)
		refused := func(req *v1.SubmitJobRequest, says string) {
			t.Helper()
			_, err := c.jobs(at).SubmitJob(c.ctx("t1", ""), req)
			requireCode(t, codes.InvalidArgument, err)
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, "--allow-pending-capacity")
			batch, err := c.jobs(at).SubmitJobs(c.ctx("t1", ""), &v1.SubmitJobsRequest{Jobs: []*v1.SubmitJobRequest{req, sleeper(0, 0)}})
			require.NoError(t, err)
			require.EqualValues(t, codes.InvalidArgument, batch.GetResults()[0].GetCode())
			require.Contains(t, batch.GetResults()[0].GetMessage(), says)
			require.NotNil(t, batch.GetResults()[1].GetJob(), "what is refused keeps no other from running")

			c.await(at, c.submit(at, patient(proto.CloneOf(req))), func(j *v1.Job) bool { return j.GetStatus() == v1.JobStatus_QUEUED && j.GetReason() != "" })
		}
		refused(sleeper(8, 0), "resource_config.gpu_count: no node has 8 GPUs; the largest has 4; the most that would fit is 4 GPUs on 1 node")
		refused(sleeper(6, 3), "resource_config.node_count: needs 3 nodes that can hold 2 GPUs each; there are 2")
		cpus := sleeper(0, 0)
		cpus.ResourceConfig.CpuCount = 4000
		refused(cpus, "resource_config.cpu_count: no node has 4000 CPUs; the largest has 64")

		_, err := c.nodes(at).PutQueue(c.ctx("t1", ""), &v1.PutQueueRequest{Name: "small", MaxGpus: 1})
		require.NoError(t, err)
		queued := sleeper(2, 0)
		queued.SchedulingConfig = &v1.SchedulingConfig{Queue: "small"}
		refused(queued, `scheduling_config.queue: queue limit: it needs 2 GPUs, and all jobs of queue "small" together may have 1`)
		_, err = c.quotas(at).PutQuota(c.ctx("t1", ""), &v1.PutQuotaRequest{Quota: &v1.Quota{MaxGpus: proto.Int32(3)}})
		require.NoError(t, err)
		refused(sleeper(4, 0), "resource_config.gpu_count: tenant quota: it needs 4 GPUs, and the tenant may have 3")
		_, err = c.jobs(at).SubmitJob(c.ctx("t2", ""), sleeper(4, 0))
		require.NoError(t, err, "the quota is another tenant's")
		_, err = c.quotas(at).DeleteQuota(c.ctx("t1", ""), &v1.DeleteQuotaRequest{})
		require.NoError(t, err)

		_, err = c.evaluations(at).SubmitEvaluation(c.ctx("t1", ""), &v1.SubmitEvaluationRequest{
			EvaluationConfig: &v1.EvaluationConfig{ModelUri: "/models/a", Benchmarks: benchmarks("mmlu")}, ResourceConfig: &v1.ResourceConfig{GpuCount: 8},
		})
		requireCode(t, codes.InvalidArgument, err)
		require.ErrorContains(t, err, "no node has 8 GPUs")
		ended := c.submit(at, sleeper(0, 0))
		_, err = c.jobs(at).CancelJob(c.ctx("t1", ""), &v1.CancelJobRequest{JobId: ended})
		require.NoError(t, err)
		c.awaitStatus(at, ended, v1.JobStatus_CANCELLED)
		_, err = c.jobs(at).RetryJob(c.ctx("t1", ""), &v1.RetryJobRequest{JobId: ended, ModifyResources: &v1.ResourceConfig{CpuCount: 65}})
		requireCode(t, codes.InvalidArgument, err)
		require.ErrorContains(t, err, "no node has 65 CPUs; the largest has 64")

		_, err = c.nodes(at).DrainNode(c.ctx("t1", ""), &v1.DrainNodeRequest{NodeId: "n2", Force: true})
		require.NoError(t, err)
		_, err = c.jobs(at).SubmitJob(c.ctx("t1", "early"), sleeper(4, 0))
		require.NoError(t, err, "a drained node counts")
		large.close()
		c.awaitNode("n2", v1.NodeState_UNREACHABLE)
		known, err := c.jobs(at).SubmitJob(c.ctx("t1", "late"), sleeper(4, 0))
		require.NoError(t, err, "so does one that cannot be reached")
		_, err = c.nodes(at).ForgetNode(c.ctx("t1", ""), &v1.ForgetNodeRequest{NodeId: "n2"})
		require.NoError(t, err)
		refused(sleeper(4, 0), "no node has 4 GPUs; the largest has 2")
		again, err := c.jobs(at).SubmitJob(c.ctx("t1", "late"), sleeper(4, 0))
		require.NoError(t, err, "what was accepted is answered as it was")
		require.Equal(t, known.GetJobId(), again.GetJobId())
	})
}

// A client that has seen a node register may submit to it, at any coordinator.
func TestCluster_aNodeThatIsShownCounts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.agent("n0", 1)
		for i := range 8 {
			c.agent(fmt.Sprint("n", i+1), i+2)
			for _, at := range c.ids {
				_, err := c.jobs(at).SubmitJob(c.ctx("t1", ""), sleeper(int32(i+2), 0))
				require.NoError(t, err)
			}
			_, err := c.jobs("c1").SubmitJob(c.ctx("t1", ""), sleeper(int32(i+3), 0))
			require.Equal(t, codes.InvalidArgument, grpcstatus.Code(err))
		}
	})
}
