package pace

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func TestLeaderTimes(t *testing.T) {
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger = "c1", hclog.NewNullLogger()
	store := raft.NewInmemStore()
	_, transport := raft.NewInmemTransport("")
	r, err := raft.NewRaft(conf, &raft.MockFSM{}, store, store, raft.NewInmemSnapshotStore(), transport)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Shutdown().Error()) }()
	times := TimesOf(r)
	require.NotNil(t, times.conf, "this version of raft keeps its configuration elsewhere: see LeaderTimes")
	times.Set(7*time.Second, 9*time.Second)
	require.Equal(t, 9*time.Second, r.ReloadableConfig().ElectionTimeout)
	now := times.conf.Load().(raft.Config)
	require.Equal(t, 7*time.Second, now.LeaderLeaseTimeout)
	require.Equal(t, conf.HeartbeatTimeout, now.HeartbeatTimeout)
	times.SetCommit(3 * time.Second)
	now = times.conf.Load().(raft.Config)
	require.Equal(t, []time.Duration{3 * time.Second, 7 * time.Second}, []time.Duration{now.CommitTimeout, now.LeaderLeaseTimeout})
}
