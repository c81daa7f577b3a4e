package sim

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNew(t *testing.T) {
	inv, err := New("n1", "4xA100, 2xh100")
	require.NoError(t, err)
	devices, err := inv.List(context.Background())
	require.NoError(t, err)
	require.Len(t, devices, 6)
	for i, d := range devices {
		require.Equal(t, i, d.Index)
		require.True(t, d.Simulated)
	}
	require.Equal(t, "A100", devices[3].Type)
	require.Equal(t, []int{0, 1, 2}, devices[3].NVLink)
	require.Equal(t, "H100", devices[4].Type)
	require.Equal(t, 81559, devices[4].MemMB)
	require.Equal(t, []int{5}, devices[4].NVLink)
	require.Equal(t, []int{0, 0, 0, 1, 1, 1}, []int{devices[0].NUMA, devices[1].NUMA, devices[2].NUMA, devices[3].NUMA, devices[4].NUMA, devices[5].NUMA})

	other, err := New("n2", "1xA100")
	require.NoError(t, err)
	require.NotEqual(t, devices[0].UUID, other.devices[0].UUID)
	readings, err := inv.Read(context.Background())
	require.NoError(t, err)
	require.Len(t, readings, 6)
}

func TestBadSpecifications(t *testing.T) {
	for _, spec := range []string{"", "H100", "0xH100", "-1xH100", "8x", "xH100", "65xH100", "40xA100,40xH100", "8xH100,"} {
		_, err := New("n1", spec)
		require.Error(t, err, spec)
	}
}
