package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/isolation"
)

func TestWithClique_keepsWhatIsConfigured(t *testing.T) {
	require.Nil(t, withClique(nil, ""))
	require.Equal(t, map[string]string{cliqueLabel: "u.1"}, withClique(nil, "u.1"))
	given := map[string]string{"a": "b"}
	require.Equal(t, map[string]string{"a": "b", cliqueLabel: "u.1"}, withClique(given, "u.1"))
	require.Len(t, given, 1, "the configuration stays as it is")
	given[cliqueLabel] = "rack-7"
	require.Equal(t, "rack-7", withClique(given, "u.1")[cliqueLabel])
}

// Labels about the walls of a node are true, whatever the configuration says.
func TestWithIsolation(t *testing.T) {
	given := map[string]string{"a": "b", isolation.Label: "full", isolation.DeviceLabel: "leased", isolation.MountsLabel: isolation.MountsJobs}
	require.Equal(t, map[string]string{"a": "b", isolation.Label: "none", isolation.DeviceLabel: "all"},
		withIsolation(given, &isolation.Isolation{Level: isolation.None}))
	require.Equal(t, "full", given[isolation.Label], "the configuration stays as it is")
}
