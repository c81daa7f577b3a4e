package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/chaos/virtual/disk"
)

// Every coordinator says how all of them are, with a leader and without, and their hashes at one index are equal.
func TestListCoordinators_saysHowEachIs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.agent("n1", 1)
		at := c.follower()
		c.awaitStatus(at, c.submit(at, sleeper(1, 0)), v1.JobStatus_TRAINING)
		ask := func(at string) *v1.ListCoordinatorsResponse {
			time.Sleep(time.Second) // virtual: callers share an answer for half of it
			resp, err := c.nodes(at).ListCoordinators(c.ctx("t1", ""), &v1.ListCoordinatorsRequest{})
			require.NoError(t, err)
			return resp
		}
		for _, at := range []string{"c1", "c2", "c3"} {
			resp := ask(at)
			require.Len(t, resp.GetCoordinators(), 3)
			require.Equal(t, c.leader(), resp.GetLeader())
			require.EqualValues(t, 2, resp.GetQuorum())
			require.EqualValues(t, 3, resp.GetVotersReachable())
			require.Equal(t, v1.HashAgreement_AGREE, resp.GetHashes(), "%v", resp)
			require.NotZero(t, resp.GetHashIndex())
			for _, r := range resp.GetCoordinators() {
				require.True(t, r.GetReachable() && r.GetVoter(), "%v", r)
				require.NotEmpty(t, r.GetStateHash())
				require.Equal(t, resp.GetTerm(), r.GetTerm())
				require.NotZero(t, r.GetLastIndex())
				require.Equal(t, resp.GetLeader() == r.GetId(), r.GetLeader())
			}
		}
		dead := c.leader()
		c.kill(dead)
		left := c.leader()
		c.eventually("the dead one is not noticed", func() bool { return ask(left).GetVotersReachable() == 2 })
		require.Equal(t, v1.HashAgreement_AGREE, ask(left).GetHashes(), "those that answer agree")
		for _, r := range ask(left).GetCoordinators() {
			require.Equal(t, r.GetId() != dead, r.GetReachable())
			if !r.GetReachable() {
				require.Zero(t, r.GetTerm())
			}
		}
		c.kill(left)
		var last string
		for _, id := range []string{"c1", "c2", "c3"} {
			if id != dead && id != left {
				last = id
			}
		}
		c.eventually("it answers without a leader", func() bool {
			resp := ask(last)
			return resp.GetVotersReachable() == 1 && resp.GetLeader() == ""
		})
	})
}

// One that hangs keeps nobody from telling a hash, and one whose data is gone is no voter that answers.
func TestListCoordinators_oneHangsOrHasNoData(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at, ill := c.leader(), c.follower()
		ask := func() *v1.ListCoordinatorsResponse {
			time.Sleep(time.Second) // virtual: callers share an answer for half of it
			resp, err := c.nodes(at).ListCoordinators(c.ctx("t1", ""), &v1.ListCoordinatorsRequest{})
			require.NoError(t, err)
			return resp
		}
		c.members[ill].host.Stop()
		resp := ask()
		require.EqualValues(t, 2, resp.GetVotersReachable())
		require.Equal(t, v1.HashAgreement_AGREE, resp.GetHashes(), "%v", resp)
		c.members[ill].host.Continue()
		c.eventually("it answers again", func() bool { return ask().GetVotersReachable() == 3 })

		c.kill(ill)
		c.members[ill].disk = disk.New(99, false)
		c.start(ill)
		c.eventually("it says that it has no data", func() bool {
			resp = ask()
			for _, r := range resp.GetCoordinators() {
				if r.GetId() == ill {
					return r.GetReachable() && r.GetState() == v1.ReplicaState_EMPTY.String()
				}
			}
			return false
		})
		require.EqualValues(t, 2, resp.GetVotersReachable())
		require.Equal(t, v1.HashAgreement_AGREE, resp.GetHashes(), "%v", resp)
		require.NotZero(t, resp.GetHashIndex())
	})
}

// A change of the leader is noted with the time for which no write was taken.
func TestListFailovers_saysWhatEachCost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.agent("n1", 1)
		first := c.leader()
		c.awaitStatus(first, c.submit(first, sleeper(1, 0)), v1.JobStatus_TRAINING)
		list := func(at string) []*v1.Failover {
			resp, err := c.nodes(at).ListFailovers(c.ctx("t1", "", status.KeyOperator, "1"), &v1.ListFailoversRequest{})
			require.NoError(t, err)
			return resp.GetFailovers()
		}
		c.eventually("the first leader is not noted", func() bool { return len(list(first)) > 0 })
		before := list(first)[0]
		require.Equal(t, first, before.GetLeader())
		killed := time.Now()
		c.kill(first)
		second := c.leader()
		c.eventually("the change is not noted", func() bool { return list(second)[0].GetLeader() == second })
		now := list(second)[0]
		require.Equal(t, first, now.GetPreviousLeader())
		require.Greater(t, now.GetTerm(), before.GetTerm())
		require.EqualValues(t, 1, now.GetJobsRunning())
		require.Zero(t, now.GetJobsHarmed())
		other, err := c.nodes(second).ListFailovers(c.ctx("t1", ""), &v1.ListFailoversRequest{})
		require.NoError(t, err)
		require.Nil(t, other.GetFailovers()[0].JobsRunning, "they are of all tenants")
		require.Nil(t, other.GetFailovers()[0].JobsHarmed)
		require.NotNil(t, now.StoodStillSeconds)
		stood := time.Duration(now.GetStoodStillSeconds() * float64(time.Second))
		require.Positive(t, stood)
		// It is measured from the last word of the old leader, which was a heartbeat ago at most.
		require.LessOrEqual(t, stood, now.GetAt().AsTime().Sub(killed)+time.Second)
	})
}

// The map has each GPU: whose it is, and to its holder how much it works.
func TestGetClusterMap_showsWhoseEachGPUIs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		c.agent("n1", 4)
		c.agent("n2", 2)
		c.awaitStatus("c1", c.submit("c1", sleeper(2, 0)), v1.JobStatus_TRAINING)
		show := func(tenant string) *v1.GetClusterMapResponse {
			resp, err := c.nodes("c1").GetClusterMap(c.ctx(tenant, ""), &v1.GetClusterMapRequest{})
			require.NoError(t, err)
			return resp
		}
		mine, theirs := show("t1"), show("t2")
		require.Equal(t, []string{"n1", "n2"}, mine.GetNodeIds())
		require.Equal(t, []v1.NodeState_Value{v1.NodeState_READY, v1.NodeState_READY}, mine.GetStates())
		require.Equal(t, []string{"H100", "H100"}, mine.GetGpuTypes())
		require.Equal(t, []string{"", ""}, mine.GetDomains())
		require.ElementsMatch(t, []string{"....", "mm"}, mine.GetGpus(), "packed")
		require.ElementsMatch(t, []string{"....", "oo"}, theirs.GetGpus())
		require.Equal(t, []string{"----", "--"}, theirs.GetUtilization())
	})
}

// A leader that dies, starts again and wins says for how long no write was taken, though it has heard of no leader itself.
func TestListFailovers_leaderThatStartedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		newest := func() *v1.Failover {
			resp, err := c.nodes(c.leader()).ListFailovers(c.ctx("t1", ""), &v1.ListFailoversRequest{})
			if err != nil || len(resp.GetFailovers()) == 0 {
				return &v1.Failover{}
			}
			return resp.GetFailovers()[0]
		}
		c.eventually("the first leader is not noted", func() bool { return newest().GetTerm() > 0 })
		for range 40 {
			old, other, term := c.leader(), c.follower(), newest().GetTerm()
			died := time.Now()
			for _, id := range []string{old, other} {
				m := c.members[id]
				m.host.Kill(false) // so that it cannot hand its leadership over
				m.stop()
				<-m.ended // with whatever a dead network gives
				m.stop = nil
			}
			c.start(old) // it and the third one elect one of them
			c.eventually("a new term is noted", func() bool { return newest().GetTerm() > term })
			now := newest()
			require.NotNil(t, now.StoodStillSeconds, "%v", now)
			stood := time.Duration(now.GetStoodStillSeconds() * float64(time.Second))
			require.Greater(t, stood, 100*time.Millisecond, "%v", now)
			require.LessOrEqual(t, stood, now.GetAt().AsTime().Sub(died)+time.Second, "%v", now)
			if now.GetLeader() == old {
				return
			}
			c.start(other)
		}
		t.Fatal("a leader that was started again never won")
	})
}
