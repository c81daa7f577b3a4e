package smi

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/device"
)

const twoH100 = `0, GPU-5b7d4a1c-0000-0000-0000-000000000000, NVIDIA H100 80GB HBM3, 81559, 00000000:1B:00.0, 0, 97, 70123, 61, 612.35
1, GPU-5b7d4a1c-0000-0000-0000-000000000001, NVIDIA H100 80GB HBM3, 81559, 00000000:43:00.0, 2, 0, 0, 30, 71.02
`

const noECC = `0, GPU-a, NVIDIA GeForce RTX 4090, 24564, 00000000:01:00.0, [N/A], 3, 512, 41, 22.10
`

const fellOff = `0, GPU-a, NVIDIA H100 80GB HBM3, [Unknown Error], 00000000:1B:00.0, [Unknown Error], [Unknown Error], [Unknown Error], [Unknown Error], [Unknown Error]
`

func TestQuery(t *testing.T) {
	for name, c := range map[string]struct {
		out      string
		devices  []device.Device
		readings []device.Reading
	}{
		"two": {twoH100, []device.Device{
			{UUID: "GPU-5b7d4a1c-0000-0000-0000-000000000000", Index: 0, Model: "NVIDIA H100 80GB HBM3", Type: "H100", MemMB: 81559, PCI: "00000000:1B:00.0", NUMA: -1},
			{UUID: "GPU-5b7d4a1c-0000-0000-0000-000000000001", Index: 1, Model: "NVIDIA H100 80GB HBM3", Type: "H100", MemMB: 81559, PCI: "00000000:43:00.0", NUMA: -1, Health: device.Quarantined, Fault: true, HealthReason: "2 uncorrected memory errors since the last reset"},
		}, []device.Reading{
			{UUID: "GPU-5b7d4a1c-0000-0000-0000-000000000000", Utilization: 0.97, MemoryUsed: 70123 << 20, Celsius: 61, Watts: 612.35, XidErrors: -1},
			{UUID: "GPU-5b7d4a1c-0000-0000-0000-000000000001", Utilization: 0, MemoryUsed: 0, Celsius: 30, Watts: 71.02, XidErrors: -1},
		}},
		"no ECC": {noECC, []device.Device{
			{UUID: "GPU-a", Model: "NVIDIA GeForce RTX 4090", Type: "RTX4090", MemMB: 24564, PCI: "00000000:01:00.0", NUMA: -1},
		}, []device.Reading{{UUID: "GPU-a", Utilization: 0.03, MemoryUsed: 512 << 20, Celsius: 41, Watts: 22.10, XidErrors: -1}}},
		"fell off the bus": {fellOff, []device.Device{
			{UUID: "GPU-a", Model: "NVIDIA H100 80GB HBM3", Type: "H100", PCI: "00000000:1B:00.0", NUMA: -1, Health: device.Quarantined, Fault: true, HealthReason: "nvidia-smi cannot read its memory: [Unknown Error]"},
		}, []device.Reading{{UUID: "GPU-a", Utilization: -1, MemoryUsed: -1, Celsius: -1, Watts: -1, XidErrors: -1}}},
		"none": {"\n", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			devices, readings, err := parseQuery([]byte(c.out))
			require.NoError(t, err)
			require.Equal(t, c.devices, devices)
			require.Equal(t, c.readings, readings)
		})
	}
	_, _, err := parseQuery([]byte("No devices were found\n"))
	require.ErrorContains(t, err, "No devices were found")
}

const topology = "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n" +
	"GPU0\t X \tNV18\tSYS\tPXB\t0-51,104-155\t0\t\tN/A\n" +
	"GPU1\tNV18\t X \tSYS\tPXB\t0-51,104-155\t0\t\tN/A\n" +
	"GPU2\tSYS\tSYS\t X \tSYS\t52-103,156-207\t1\t\tN/A\n" +
	"NIC0\tPXB\tPXB\tSYS\t X \t\t\t\t\n\n" +
	"Legend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"

func TestTopology(t *testing.T) {
	devices := []device.Device{{Index: 0, NUMA: -1}, {Index: 1, NUMA: -1}, {Index: 2, NUMA: -1}}
	applyTopology(devices, []byte(topology))
	require.Equal(t, []device.Device{{Index: 0, NUMA: 0, NVLink: []int{1}}, {Index: 1, NUMA: 0, NVLink: []int{0}}, {Index: 2, NUMA: 1}}, devices)
	applyTopology(devices, []byte("nonsense\n\tGPU0\n"))
}

func TestProcesses(t *testing.T) {
	processes, err := parseProcesses([]byte("GPU-a, 1234, 4096\nGPU-b, 5, 1\nGPU-a, 77, [N/A]\n"))
	require.NoError(t, err)
	require.Equal(t, map[string][]device.Process{"GPU-a": {{Pid: 1234, MemMB: 4096}, {Pid: 77}}, "GPU-b": {{Pid: 5, MemMB: 1}}}, processes)
	none, err := parseProcesses(nil)
	require.NoError(t, err)
	require.Empty(t, none)
	_, err = parseProcesses([]byte("what\n"))
	require.Error(t, err)
}

func TestTheProgramIsRun(t *testing.T) {
	script := filepath.Join(t.TempDir(), "nvidia-smi")
	text := "#!/bin/sh\ncase $1 in --query-gpu=index,mig*) echo '0, Disabled';; --query-gpu=*) echo '0, GPU-a, NVIDIA H200, 143771, 00000000:1B:00.0, 0, 1, 2, 3, 4';; topo) exit 1;; *) exec sleep 1000;; esac\n"
	require.NoError(t, os.WriteFile(script, []byte(text), 0o755))
	inv := &Inventory{program: script}
	devices, err := inv.List(context.Background())
	require.NoError(t, err)
	require.Len(t, devices, 1)
	require.Equal(t, "H200", devices[0].Type)
	readings, err := inv.Read(context.Background())
	require.NoError(t, err)
	require.InDelta(t, 0.01, readings[0].Utilization, 1e-9)

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = inv.Processes(ctx, "GPU-a")
	require.Error(t, err, "a hanging nvidia-smi is given up")
}

func TestADividedGPUIsNotUsed(t *testing.T) {
	devices := []device.Device{{Index: 0}, {Index: 1}, {Index: 2, Health: device.Quarantined, HealthReason: "broken"}}
	quarantineDivided(devices, []byte("0, Disabled\n1, Enabled\n2, Enabled\n3, Enabled\n4, [N/A]\n"))
	require.Equal(t, device.Healthy, devices[0].Health)
	require.Equal(t, device.Quarantined, devices[1].Health)
	require.Contains(t, devices[1].HealthReason, "MIG is on")
	require.Equal(t, "broken", devices[2].HealthReason)
}
