package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
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
