package coordinator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestCluster_nodeThatFallsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 1)
		at := c.follower()
		id := c.submit(at, sleeper(1, 0))
		c.awaitStatus(at, id, v1.JobStatus_TRAINING)
		a.close()
		c.awaitNode("n1", v1.NodeState_UNREACHABLE)
		j := c.get(at, id)
		require.Equal(t, v1.JobStatus_TRAINING, j.GetStatus())
		require.Contains(t, j.GetReason(), "unreachable")
		c.agent("n1", 1) // The same machine and boot id: the task has not been restarted.
		require.Equal(t, v1.JobStatus_TRAINING, c.get(at, id).GetStatus())
	})
}

func TestCluster_drain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.agent("n1", 1)
		at := c.follower()
		id := c.submit(at, sleeper(1, 0))
		c.awaitStatus(at, id, v1.JobStatus_TRAINING)
		resp, err := c.nodes(at).DrainNode(c.ctx("t1", ""), &v1.DrainNodeRequest{NodeId: "n1", Reason: "new fans"})
		require.NoError(t, err)
		require.Equal(t, v1.NodeState_DRAINING, resp.GetNode().GetState())
		_, err = c.nodes(at).DrainNode(c.ctx("t1", ""), &v1.DrainNodeRequest{NodeId: "n1", Force: true})
		require.NoError(t, err)
		c.awaitNode("n1", v1.NodeState_DRAINED)
		require.Equal(t, v1.JobStatus_QUEUED, c.awaitStatus(at, id, v1.JobStatus_QUEUED).GetStatus(), "drained jobs go back to the queue")
		_, err = c.nodes(at).EnableNode(c.ctx("t1", ""), &v1.EnableNodeRequest{NodeId: "n1"})
		require.NoError(t, err)
		c.awaitStatus(at, id, v1.JobStatus_TRAINING)
		_, err = c.nodes(at).DrainNode(c.ctx("t1", ""), &v1.DrainNodeRequest{NodeId: "n9"})
		requireCode(t, codes.NotFound, err)
	})
}

func TestCluster_specsAreToldOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 8)
		at := c.leader()
		for range 8 {
			c.awaitStatus(at, c.submit(at, sleeper(1, 0)), v1.JobStatus_TRAINING)
		}
		c.eventually("not all are told", func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			for task, times := range a.specs {
				require.Equal(t, 1, times, task)
			}
			return len(a.specs) == 8
		})
	})
}

func TestCluster_anAgentThatDoesNotReadHoldsUpNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		// The node never renews, and must not be judged silent before the test is over.
		c := startCluster(t, 3, func(config *Config) { config.Timers.UnreachableAfter = 10 * longstop })
		leader := c.leader()
		stream, err := v1.NewAgentServiceClient(c.members[leader].conn).Session(c.ctx("", ""))
		require.NoError(t, err)
		require.NoError(t, stream.Send(&v1.SessionRequest{Body: &v1.SessionRequest_Hello{Hello: &v1.Hello{NodeId: "deaf", BootId: "b", GrpcAddr: "127.0.0.1:1", CpuCount: 64, MemoryMb: 1024}}}))
		c.awaitNode("deaf", v1.NodeState_READY)
		large := sleeper(0, 0)
		large.CommandConfig.Argv = []string{"true", strings.Repeat("x", 200<<10)}
		for range 8 { // more than a stream buffers
			id := c.submit(leader, large)
			c.await(leader, id, func(j *v1.Job) bool { return j.GetState() == v1.JobState_ALLOCATED })
		}
		c.lead(c.follower())
		c.lead(leader)
		c.agent("n1", 1) // It gets a session only if the first term is really over.
		c.awaitStatus(leader, c.submit(leader, sleeper(1, 0)), v1.JobStatus_TRAINING)
	})
}

func TestCluster_aNewLeaderSaysWhatTheOldOneDidNot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		for range 3 {
			id := c.submit(c.leader(), sleeper(1, 0))
			c.kill(c.leader())
			at := c.leader()
			c.awaitStatus(at, id, v1.JobStatus_QUEUED)
			for _, id := range c.ids {
				if c.members[id].stop == nil {
					c.start(id)
				}
			}
		}
	})
}
