package cluster

import (
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestForget_refusesWithoutTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	cmd := &cobra.Command{}
	cmd.SetIn(null)
	require.ErrorContains(t, confirmForget(cmd, "n1", &node{}), "--yes")
}
