package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfig_saysEverythingThatIsWrong(t *testing.T) {
	err := Config{CertFile: "x", GossipKey: []byte("short"), LogStore: "paper", Peers: []Peer{{ID: "a"}, {ID: "a"}}}.Validate()
	for _, part := range []string{"id is required", "data_dir", "cert_file", "gossip_key has 5 bytes", `log_store "paper"`, `"a" twice`, "do not contain this"} {
		require.ErrorContains(t, err, part)
	}
	good := Config{ID: "a", DataDir: "d", GRPCAddr: "x:1", HTTPAddr: "x:2", RaftAddr: "x:3", Peers: []Peer{{ID: "a", RaftAddr: "x:3", GRPCAddr: "x:1"}}}
	require.NoError(t, good.Validate())
	good.Timers.UnreachableAfter = 1
	require.ErrorContains(t, good.Validate(), "unreachable_after")
}
