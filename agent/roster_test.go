package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/leader"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestARosterThatIsNotOnDiskIsNotNamed(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	cfg := testConfig(t, l)
	inTheWay := filepath.Join(cfg.DataDir, leader.RosterFile)
	require.NoError(t, os.Mkdir(inTheWay, 0o700))
	l.roster = &v1.Roster{Version: 7, Members: []*v1.RosterMember{{NodeId: "n1", GrpcAddr: "127.0.0.1:1"}}}
	inProcess(t, cfg)
	l.await("heartbeats", func() bool { return l.beats > 5 })
	named := false
	l.change(func() { named = l.keeps(7) })
	require.False(t, named, "the leader would believe that this agent knows it, and it would not after a restart")
	require.NoError(t, os.Remove(inTheWay))
	l.await("the roster", func() bool { return l.keeps(7) })
	require.FileExists(t, filepath.Join(cfg.DataDir, leader.RosterFile))
}
