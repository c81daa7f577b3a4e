package gpus

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/device"
)

func TestCliqueOf_isThatOfAllDevices(t *testing.T) {
	require.Empty(t, cliqueOf(nil))
	require.Equal(t, "u.1", cliqueOf([]device.Device{{Clique: "u.1"}, {Clique: "u.1"}}))
	require.Empty(t, cliqueOf([]device.Device{{Clique: "u.1"}, {}}))
	require.Empty(t, cliqueOf([]device.Device{{Clique: "u.1"}, {Clique: "u.2"}}))
}
