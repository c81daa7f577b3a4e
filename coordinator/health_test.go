package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/raftnode"
)

func (c *cluster) awaitHealth(id string, want healthpb.HealthCheckResponse_ServingStatus) {
	c.t.Helper()
	for end := time.Now().Add(longstop); time.Now().Before(end); waitABit() {
		reply, err := healthpb.NewHealthClient(c.members[id].conn).Check(c.ctx("", ""), &healthpb.HealthCheckRequest{})
		require.NoError(c.t, err)
		if reply.GetStatus() == want {
			return
		}
	}
	c.t.Fatalf("%s never said %s", id, want)
}

// A coordinator reports to clients that it is not ready for streams while it knows no leader.
func TestHealth_toldToClients(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		leader := c.leader()
		for _, id := range c.running() {
			c.awaitHealth(id, healthpb.HealthCheckResponse_SERVING)
		}
		_, err := healthpb.NewHealthClient(c.members[leader].conn).Check(c.ctx("", ""), &healthpb.HealthCheckRequest{Service: "x"})
		requireCode(t, codes.NotFound, err)
		left := c.follower()
		for _, id := range c.running() {
			if id != left {
				c.kill(id)
			}
		}
		c.awaitHealth(left, healthpb.HealthCheckResponse_NOT_SERVING)
	})
}

// While entries come without a pause, one of them is always committed and not applied yet. The replica is ready once
// the entries from before its start are replayed.
func TestHealth_aBusyReplicaIsReady(t *testing.T) {
	s := &server{life: t.Context(), replica: replicaOf(t, fsm.New())}
	at := func(committed, applied uint64) string {
		return s.unready(raftnode.Stats{LeaderID: "c1", CommitIndex: committed, AppliedIndex: applied})
	}
	require.Equal(t, "replaying the log", at(0, 5), "nobody has said yet how far the log is committed")
	require.Equal(t, "replaying the log", at(100, 40))
	require.Equal(t, "replaying the log", at(120, 99))
	require.Empty(t, at(150, 100))
	require.Empty(t, at(1000, 101), "for good")
}
