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

func TestNew_slices(t *testing.T) {
	inv, err := New("n1", "1xH100,8xH100-1g.10gb,2xA100-3g.40gb")
	require.NoError(t, err)
	devices := inv.devices
	require.Len(t, devices, 11)
	require.Nil(t, devices[0].Slice)
	parents := make(map[string]int)
	uuids := make(map[string]bool)
	for i, d := range devices {
		require.Equal(t, i, d.Index)
		uuids[d.UUID] = true
		if i > 0 {
			parents[d.Slice.Parent]++
			require.Empty(t, d.NVLink)
		}
	}
	require.Len(t, uuids, 11)
	require.Equal(t, map[string]int{"GPU-sim-n1-1": 7, "GPU-sim-n1-2": 1, "GPU-sim-n1-9": 2}, parents)
	require.Equal(t, "H100-1g.10gb", devices[1].Type)
	require.Equal(t, "NVIDIA H100 80GB HBM3 MIG 1g.10gb", devices[1].Model)
	require.Equal(t, 10240, devices[1].MemMB)
	require.Equal(t, "3g.40gb", devices[10].Slice.Profile)
}

func TestBadSpecifications(t *testing.T) {
	for _, spec := range []string{"", "H100", "0xH100", "-1xH100", "8x", "xH100", "65xH100", "40xA100,40xH100", "8xH100,"} {
		_, err := New("n1", spec)
		require.Error(t, err, spec)
	}
}
