package tunnels

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// The record of a command has its words apart, and says of a long one that there is more.
func TestWhat(t *testing.T) {
	said := func(words ...string) string {
		return what(&v1.TunnelOpening{Rank: 2, Shell: &v1.TunnelShell{Command: words}})
	}
	require.Equal(t, "rank 2: bash -l", said("bash", "-l"))
	require.Equal(t, `rank 2: sh -c "a b" "" "x\ny"`, said("sh", "-c", "a b", "", "x\ny"))
	require.Equal(t, "rank 0: port 6006", what(&v1.TunnelOpening{Port: 6006}))
	long := said("sh", "-c", strings.Repeat(" ", 2000)+"cat /secrets")
	require.Less(t, len(long), 1000)
	require.Contains(t, long, "bytes, sha256 ")
	require.NotEqual(t, long, said("sh", "-c", strings.Repeat(" ", 2000)+"cat /others!"))
}
