package coordinator

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

func sampleOf(index int, percent, mb int32) *v1.GpuSample {
	return &v1.GpuSample{Index: int32(index), UtilizationPercent: proto.Int32(percent), MemoryUsedMb: proto.Int32(mb)}
}

// Every replica shows the utilization of GPUs that agents reported to the leader, except that of GPUs which another
// tenant holds.
func TestActivity_whatGPUsDo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		agent := c.agent("n1", 4)
		at := c.leader()
		own := c.submit(at, sleeper(1, 0))
		c.awaitStatus(at, own, v1.JobStatus_TRAINING)
		other, err := c.jobs(at).SubmitJob(c.ctx("t2", ""), sleeper(1, 0))
		require.NoError(t, err)
		c.eventually("the other tenant's job never ran", func() bool {
			return c.getFor("t2", at, other.GetJobId()).GetStatus() == v1.JobStatus_TRAINING
		})
		cluster, err := c.nodes(at).GetCluster(c.ctx("t1", ""), &v1.GetClusterRequest{})
		require.NoError(t, err)
		require.True(t, math.IsNaN(cluster.GetGpuUtilization()))
		require.Zero(t, cluster.GetGpusMeasured())
		require.InDelta(t, 0.5, cluster.GetGpuAllocation(), 1e-9)

		agent.mu.Lock()
		agent.samples = []*v1.GpuSample{sampleOf(0, 90, 40000), sampleOf(1, 70, 30000), sampleOf(2, 0, 5), {Index: 3}}
		agent.mu.Unlock()
		for round := range 2 {
			for _, id := range c.running() {
				c.eventually(id+" never told what the GPUs do", func() bool {
					cluster, err := c.nodes(id).GetCluster(c.ctx("t1", ""), &v1.GetClusterRequest{})
					require.NoError(t, err)
					return cluster.GetGpusMeasured() == 3
				})
				cluster, err := c.nodes(id).GetCluster(c.ctx("t1", ""), &v1.GetClusterRequest{})
				require.NoError(t, err)
				require.InDelta(t, 1.6/3, cluster.GetGpuUtilization(), 1e-9, "the mean of those of which it is known")
				require.InDelta(t, 0.5, cluster.GetGpuAllocation(), 1e-9)

				resp, err := c.nodes(id).GetNode(c.ctx("t1", ""), &v1.GetNodeRequest{NodeId: "n1"})
				require.NoError(t, err)
				require.NotNil(t, resp.GetNode().GetLastSeenAt(), "%s asks the leader, who hears from agents", id)
				require.WithinDuration(t, time.Now(), resp.GetNode().GetLastSeenAt().AsTime(), longstop)
				for i, g := range resp.GetNode().GetGpus() {
					switch {
					case g.GetJobId() == own:
						require.InDelta(t, 0.9, g.GetUtilization(), 1e-9)
						require.EqualValues(t, 40000, g.GetMemoryUsedMb())
					default:
						require.Nil(t, g.Utilization, "GPU %d is not the tenant's", i)
						require.Nil(t, g.MemoryUsedMb)
					}
				}
				resp, err = c.nodes(id).GetNode(c.operator("t1"), &v1.GetNodeRequest{NodeId: "n1"})
				require.NoError(t, err)
				gpus := resp.GetNode().GetGpus()
				require.InDelta(t, 0.7, gpus[1].GetUtilization(), 1e-9, "operators are told of all")
				require.NotNil(t, gpus[2].Utilization, "0 is known")
				require.Zero(t, gpus[2].GetUtilization())
				require.EqualValues(t, 5, gpus[2].GetMemoryUsedMb())
				require.Nil(t, gpus[3].Utilization, "its sensors say nothing")
				require.Nil(t, gpus[3].MemoryUsedMb)
				list, err := c.nodes(id).ListNodes(c.operator("t1"), &v1.ListNodesRequest{})
				require.NoError(t, err)
				require.EqualValues(t, 30000, list.GetNodes()[0].GetGpus()[1].GetMemoryUsedMb())
			}
			if round == 0 {
				c.lead(c.follower()) // the new leader has no reports yet
			}
		}
		stale, err := c.nodes(c.follower()).GetCluster(c.ctx("t1", "", status.KeyConsistency, status.Stale), &v1.GetClusterRequest{})
		require.NoError(t, err)
		require.True(t, math.IsNaN(stale.GetGpuUtilization()), "a stale read asks nobody")
		resp, err := c.operators(c.follower()).GetNodeActivity(c.ctx("", ""), &v1.GetNodeActivityRequest{NodeId: "n1"})
		require.NoError(t, err, "it is handed on to the leader")
		require.Len(t, resp.GetNodes(), 1)
	})
}
