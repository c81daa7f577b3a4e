package coordinator

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/level"
)

func TestLevel_aNewClusterBeginsAtTheNewest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, func(config *Config) { config.Raise, config.Program = RaiseManual, "v7" })
		c.agent("n1", 1)
		id := c.submit(c.leader(), sleeper(1, 0))
		c.awaitStatus(c.leader(), id, v1.JobStatus_TRAINING)
		for _, at := range c.ids {
			got, err := c.operators(at).GetFeatureLevel(c.ctx("", ""), &v1.GetFeatureLevelRequest{})
			require.NoError(t, err)
			require.Equal(t, uint32(level.Newest), got.GetLevel())
			require.Empty(t, got.GetLocked())
			require.Empty(t, got.GetWaitsFor())
			require.Len(t, got.GetCoordinators(), 3)
			for _, one := range got.GetCoordinators() {
				require.Equal(t, []any{uint32(level.Base), uint32(level.Newest), "v7", true}, []any{one.GetOldestLevel(), one.GetNewestLevel(), one.GetProgram(), one.GetVoter()}, one.GetReason())
			}
			raised, err := c.operators(at).RaiseFeatureLevel(c.ctx("", ""), &v1.RaiseFeatureLevelRequest{})
			require.NoError(t, err, "there is nothing to do")
			require.Equal(t, raised.GetFrom(), raised.GetLevel())
		}
	})
}

func TestLevel_anOlderCoordinatorCannotJoin(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		for name, join := range map[string]*v1.JoinPeerRequest{
			"it does not say which feature levels its version of mind supports: start it with the version of the other coordinators":                                       {},
			fmt.Sprintf("supports feature levels from %d on, and the cluster is at %d: upgrade all coordinators to a version between first", level.Newest+1, level.Newest): {OldestLevel: uint32(level.Newest) + 1, NewestLevel: uint32(level.Newest) + 2},
		} {
			join.Id, join.RaftAddr = "c9", "10.0.0.9:1"
			_, err := c.operators("c1").JoinPeer(c.ctx("", ""), join)
			requireCode(t, codes.FailedPrecondition, err)
			require.ErrorContains(t, err, name)
		}
		peers, err := c.operators("c1").ListPeers(c.ctx("", ""), &v1.ListPeersRequest{})
		require.NoError(t, err)
		require.Len(t, peers.GetPeers(), 1)
	})
}
