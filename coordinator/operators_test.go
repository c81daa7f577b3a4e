package coordinator

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestCluster_leadershipIsHandedOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 1)
		from, to := c.leader(), c.follower()
		resp, err := c.operators(to).TransferLeadership(c.ctx("", ""), &v1.TransferLeadershipRequest{To: to})
		require.NoError(t, err)
		require.Equal(t, to, resp.GetLeader())
		id := c.submit(from, sleeper(1, 0))
		c.awaitStatus(from, id, v1.JobStatus_TRAINING)
		require.NotNil(t, a.has(id), "the agent found the new leader")
		_, err = c.operators(from).TransferLeadership(c.ctx("", ""), &v1.TransferLeadershipRequest{To: "c9"})
		requireCode(t, codes.NotFound, err)
	})
}

func TestCluster_replicasAgree(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.agent("n1", 4)
		for range 10 {
			c.submit(c.ids[0], sleeper(1, 0))
		}
		id := c.submit(c.ids[1], sleeper(1, 0))
		same := func() bool {
			hashes := map[string]bool{}
			for _, at := range c.ids {
				resp, err := c.operators(at).GetStateHash(c.ctx("", ""), &v1.GetStateHashRequest{})
				require.NoError(t, err)
				hashes[fmt.Sprint(resp.GetIndex(), resp.GetHash())] = true
			}
			return len(hashes) == 1
		}
		c.awaitStatus(c.ids[2], id, v1.JobStatus_QUEUED)
		c.eventually("the replicas never agree", same)
	})
}

func TestCluster_peersKnowEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		c.eventually("the coordinators never know each other", func() bool {
			resp, err := c.operators(at).ListPeers(c.ctx("", ""), &v1.ListPeersRequest{})
			require.NoError(t, err)
			known := 0
			for _, p := range resp.GetPeers() {
				if p.GetGrpcAddr() == c.members[p.GetId()].config.GRPCAddr && p.GetHttpAddr() == c.members[p.GetId()].config.HTTPAddr && p.GetVoter() {
					known++
				}
			}
			return known == 3
		})
	})
}

func TestCluster_newVoterJoins(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		id := c.submit("c1", sleeper(1, 0))
		config := c.members["c1"].config
		config.ID, config.DataDir, config.Peers = "c2", t.TempDir(), nil
		config.JoinVia = []string{c.members["c1"].config.GRPCAddr}
		c.ids = append(c.ids, "c2")
		c.members["c2"] = &member{}
		config.GRPCAddr, config.HTTPAddr, config.RaftAddr = c.addresses("c2")
		c.members["c2"].config = config
		c.start("c2")
		c.leader()
		c.await("c2", id, func(*v1.Job) bool { return true })
		resp, err := c.operators("c2").ListPeers(c.ctx("", ""), &v1.ListPeersRequest{})
		require.NoError(t, err)
		require.Len(t, resp.GetPeers(), 2)
		_, err = c.operators("c2").TransferLeadership(c.ctx("", ""), &v1.TransferLeadershipRequest{To: "c1"})
		require.NoError(t, err)
		_, err = c.operators("c2").RemovePeer(c.ctx("", ""), &v1.RemovePeerRequest{Id: "c2"})
		require.NoError(t, err)
		c.submit("c1", sleeper(1, 0))
	})
}

func TestCluster_healthAndMetrics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		c.agent("n1", 2)
		c.awaitStatus("c1", c.submit("c1", sleeper(1, 0)), v1.JobStatus_TRAINING)
		for path, want := range map[string][]string{
			"/health":       {`"status":"ok"`},
			"/health/ready": {`"leader":"c1"`},
			"/metrics": {
				`mind_jobs{queue="default",state="RUNNING"} 1`, `mind_gpus{model="NVIDIA H100 80GB HBM3",state="LEASED"} 1`,
				`mind_nodes{state="READY"} 1`, "mind_leases 1", "mind_raft_leader 1", `mind_job_transitions_total{from="QUEUED",to="ALLOCATED"} 1`,
				"mind_scheduler_placements_total 1", "mind_submit_to_running_seconds_count 1",
			},
		} {
			for _, w := range want {
				// Counters follow the state with a small delay.
				c.eventually(path+" never says "+w, func() bool {
					code, body := c.page("c1", path)
					return code == http.StatusOK && strings.Contains(body, w)
				})
			}
		}
	})
}
