package sim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/device"
)

func TestFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), FaultsFile)
	inv, err := New("n1", "4xH100")
	require.NoError(t, err)
	inv.WithFaults(path)
	ctx := context.Background()
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	list := func() []string {
		devices, err := inv.List(ctx)
		require.NoError(t, err)
		var words []string
		for _, d := range devices {
			words = append(words, fmt.Sprintf("%d %t %s", d.Index, d.Fault, d.HealthReason))
		}
		return words
	}
	well := []string{"0 false ", "1 false ", "2 false ", "3 false "}
	require.Equal(t, well, list(), "there is no file")
	write(`{"0": "xid 79", "1": "ecc", "2": "vanish", "3": "stuck-process"}`)
	require.Equal(t, []string{"0 true Xid 79: GPU has fallen off the bus", "1 true 2 uncorrected memory errors since the last reset", "3 false "}, list())
	processes, err := inv.Processes(ctx, "GPU-sim-n1-3")
	require.NoError(t, err)
	require.Equal(t, []device.Process{{Pid: 1, MemMB: 1024}}, processes)
	processes, err = inv.Processes(ctx, "GPU-sim-n1-0")
	require.NoError(t, err)
	require.Empty(t, processes)
	readings, err := inv.Read(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, readings[0].XidErrors)
	require.Zero(t, readings[0].Utilization)
	write(`{"1": "busy 75 40000"}`)
	require.Equal(t, well, list(), "it is no fault")
	readings, err = inv.Read(ctx)
	require.NoError(t, err)
	require.InDelta(t, 0.75, readings[1].Utilization, 1e-9)
	require.EqualValues(t, 40000<<20, readings[1].MemoryUsed)

	write(fmt.Sprintf(`{"0": "xid 13", "3": "stuck-process %d"}`, os.Getpid()))
	require.Equal(t, well, list(), "a program may cause that one")
	processes, err = inv.Processes(ctx, "GPU-sim-n1-3")
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), processes[0].Pid)
	write(`{"3": "stuck-process 2147483600"}`)
	processes, err = inv.Processes(ctx, "GPU-sim-n1-3")
	require.NoError(t, err)
	require.Empty(t, processes, "there is no such process")

	write(`{"driver": "hang"}`)
	_, err = inv.List(ctx)
	require.ErrorIs(t, err, device.ErrHung)
	_, err = inv.Processes(ctx, "GPU-sim-n1-3")
	require.ErrorIs(t, err, device.ErrHung)
	_, err = inv.Read(ctx)
	require.ErrorIs(t, err, device.ErrHung)
	write(`{"driver": "error"}`)
	_, err = inv.List(ctx)
	require.Error(t, err)
	require.NotErrorIs(t, err, device.ErrHung)
	write(`{"0": 5`)
	_, err = inv.List(ctx)
	require.ErrorContains(t, err, "read the faults to simulate")
	require.NoError(t, os.Remove(path))
	require.Equal(t, well, list())
}
