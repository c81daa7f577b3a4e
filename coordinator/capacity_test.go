package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/scheduler"
)

// mixed is a cluster of two nodes with eight H100 and one with four A100.
func mixed() *scheduler.Capacity {
	c := scheduler.NewCapacity()
	for _, n := range []struct {
		id, kind string
		gpus     uint8
		cpus     uint32
	}{{"n1", "H100", 8, 64}, {"n2", "H100", 8, 32}, {"n3", "A100", 4, 128}} {
		node := &fsm.Node{ID: n.id, CPUs: n.cpus, MemMB: 500_000, Labels: map[string]string{"kind": n.kind}}
		for i := range n.gpus {
			node.GPUs = append(node.GPUs, fsm.GPU{Index: i, Model: "NVIDIA " + n.kind, Type: n.kind, MemMB: 80_000})
		}
		c.Put(node)
	}
	return c
}

func TestNeverFits_saysWhatWouldFit(t *testing.T) {
	for name, tt := range map[string]struct {
		resources *v1.ResourceConfig
		want      string
	}{
		"CPUs":                   {&v1.ResourceConfig{CpuCount: 4000}, "resource_config.cpu_count: no node has 4000 CPUs; the largest has 128"},
		"CPUs beside GPUs":       {&v1.ResourceConfig{GpuCount: 8, CpuCount: 100}, "resource_config.cpu_count: no node with 8 GPUs has 100 CPUs; the largest has 64"},
		"memory":                 {&v1.ResourceConfig{MemoryMb: 1 << 20, CpuCount: 4}, "resource_config.memory_mb: no node with 4 CPUs has 1048576 MiB of memory; the largest has 500000"},
		"a type":                 {&v1.ResourceConfig{GpuCount: 1, GpuType: "B200"}, `resource_config.gpu_type: no node has GPUs of type "B200"; the types there are: A100, H100`},
		"a type on these nodes":  {&v1.ResourceConfig{GpuCount: 1, GpuType: "A100", NodeSelector: map[string]string{"kind": "H100"}}, `resource_config.gpu_type: no node with the labels kind=H100 has GPUs of type "A100"; the types there are: A100, H100`},
		"labels":                 {&v1.ResourceConfig{NodeSelector: map[string]string{"kind": "B200"}}, "resource_config.node_selector: no node has the labels kind=B200"},
		"memory of a GPU":        {&v1.ResourceConfig{GpuCount: 1, GpuMemoryMb: 100_000}, "resource_config.gpu_memory_mb: no node has a GPU with 100000 MiB; the largest has 80000"},
		"more nodes would do":    {&v1.ResourceConfig{GpuCount: 16, GpuType: "H100"}, "resource_config.gpu_count: no node has 16 x H100; the largest has 8; 2 nodes could hold them: set node_count 2 (--nodes 2) if the program can run on several"},
		"no number of nodes":     {&v1.ResourceConfig{GpuCount: 8, GpuType: "A100"}, "resource_config.gpu_count: no node has 8 x A100; the largest has 4; the most that would fit is 4 x A100 on 1 node"},
		"more than any node can": {&v1.ResourceConfig{GpuCount: 9999}, "resource_config.gpu_count: no node has 9999 GPUs; the largest has 8; the most that would fit is 16 GPUs on 2 nodes"},
		"on one node":            {&v1.ResourceConfig{GpuCount: 16, Topology: "single_node"}, "resource_config.gpu_count: no node has 16 GPUs; the largest has 8"},
		"linked":                 {&v1.ResourceConfig{GpuCount: 2, Topology: "nvlink"}, "resource_config.topology: no node has 2 GPUs that are all linked by NVLink"},
		"nodes":                  {&v1.ResourceConfig{GpuCount: 24, NodeCount: 3}, "resource_config.node_count: needs 3 nodes that can hold 8 GPUs each; there are 2; the most that would fit is 16 GPUs on 2 nodes"},
		"fewer nodes would do":   {&v1.ResourceConfig{GpuCount: 4, GpuType: "A100", NodeCount: 4}, "resource_config.node_count: needs 4 nodes that can hold 1 x A100 each; there is 1; 1 node could hold them: set node_count 1 (--nodes 1)"},
		"nodes without GPUs":     {&v1.ResourceConfig{CpuCount: 1, NodeCount: 5}, "resource_config.node_count: needs 5 nodes that can hold a task of it each; there are 3"},
	} {
		t.Run(name, func(t *testing.T) {
			req := commandJob()
			req.ResourceConfig = tt.resources
			job, err := newJob(req, mixed())
			if err == nil {
				err = neverFits(tt.resources, job.Shape, mixed())
			}
			require.EqualError(t, err, tt.want)
		})
	}
	req := commandJob()
	req.ResourceConfig = &v1.ResourceConfig{GpuCount: 65}
	_, err := newJob(req, scheduler.NewCapacity())
	const want = "resource_config.gpu_count: 65 on 1 node: a node has at most 64; node_count (--nodes) spreads them"
	require.EqualError(t, err, want)
	req.SchedulingConfig = &v1.SchedulingConfig{AllowPendingCapacity: true}
	_, err = newJob(req, mixed())
	require.EqualError(t, err, want, "it is not the nodes of today that are too small")
}

// What the nodes, the queue or the quota could never hold is refused, unless the job says that it waits for more. What is
// only away, drained or ill counts; what was forgotten does not.
func TestCluster_whatCanNeverRunIsRefused(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, func(config *Config) { config.Timers.UnreachableAfter = 4 * time.Second })
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
	refused(sleeper(6, 3), "resource_config.node_count: needs 3 nodes that can hold 2 GPUs each; there is 1")
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
	refused(sleeper(4, 0), "resource_config.gpu_count: tenant quota: it needs 4 GPUs, and 3 is all that the tenant may have")
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
}

// Whoever has seen a node register may submit to it, at any coordinator.
func TestCluster_aNodeThatIsShownCounts(t *testing.T) {
	t.Parallel()
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
}
