//go:build linux && cgo

package nvml

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/device"
)

func TestTheMockMachine(t *testing.T) {
	inv, err := open(dgxa100.New())
	require.NoError(t, err)
	defer inv.Close()
	devices, err := inv.List(context.Background())
	require.NoError(t, err)
	require.Len(t, devices, 8)
	uuids := make(map[string]bool)
	for i, d := range devices {
		require.Equal(t, i, d.Index)
		require.Positive(t, d.MemMB)
		require.NotEmpty(t, d.Model)
		require.Equal(t, device.Healthy, d.Health)
		uuids[d.UUID] = true
	}
	require.Len(t, uuids, 8)
	readings, err := inv.Read(context.Background())
	require.NoError(t, err)
	require.Len(t, readings, 8)
	require.Equal(t, devices[0].UUID, readings[0].UUID)
}

// newFake returns a library with two linked GPUs, one of them faulty, and one process.
func newFake() *mock.Interface {
	pci := func(bus string) nvml.PciInfo {
		var info nvml.PciInfo
		for i, c := range []byte(bus) {
			info.BusId[i] = int8(c)
		}
		return info
	}
	buses := []string{"00000000:1b:00.0", "00000000:43:00.0"}
	gpu := func(i int) nvml.Device {
		return &mock.Device{
			GetUUIDFunc:       func() (string, nvml.Return) { return []string{"GPU-a", "GPU-b"}[i], nvml.SUCCESS },
			GetNameFunc:       func() (string, nvml.Return) { return "NVIDIA H100 80GB HBM3", nvml.SUCCESS },
			GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 80 << 30, Used: 1 << 30}, nvml.SUCCESS },
			GetPciInfoFunc:    func() (nvml.PciInfo, nvml.Return) { return pci(buses[i]), nvml.SUCCESS },
			GetTotalEccErrorsFunc: func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) {
				return uint64(i), nvml.SUCCESS
			},
			GetRemappedRowsFunc: func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, nvml.SUCCESS },
			GetNvLinkStateFunc: func(link int) (nvml.EnableState, nvml.Return) {
				if link > 3 {
					return nvml.FEATURE_DISABLED, nvml.ERROR_INVALID_ARGUMENT
				}
				return nvml.FEATURE_ENABLED, nvml.SUCCESS
			},
			GetNvLinkRemoteDeviceTypeFunc: func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
				return nvml.NVLINK_DEVICE_TYPE_GPU, nvml.SUCCESS
			},
			GetNvLinkRemotePciInfoFunc: func(int) (nvml.PciInfo, nvml.Return) { return pci(buses[1-i]), nvml.SUCCESS },
			GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) {
				return []nvml.ProcessInfo{{Pid: 7, UsedGpuMemory: 3 << 20}}, nvml.SUCCESS
			},
			GetUtilizationRatesFunc: func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 50}, nvml.SUCCESS },
			GetTemperatureFunc:      func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 61, nvml.SUCCESS },
			GetPowerUsageFunc:       func() (uint32, nvml.Return) { return 612_000, nvml.SUCCESS },
		}
	}
	return &mock.Interface{
		InitFunc:                   func() nvml.Return { return nvml.SUCCESS },
		ShutdownFunc:               func() nvml.Return { return nvml.SUCCESS },
		DeviceGetCountFunc:         func() (int, nvml.Return) { return 2, nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) { return gpu(i), nvml.SUCCESS },
		DeviceGetHandleByUUIDFunc:  func(string) (nvml.Device, nvml.Return) { return gpu(0), nvml.SUCCESS },
		EventSetCreateFunc:         func() (nvml.EventSet, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED },
	}
}

func TestLinksHealthSensorsAndProcesses(t *testing.T) {
	inv, err := open(newFake())
	require.NoError(t, err)
	defer inv.Close()
	devices, err := inv.List(context.Background())
	require.NoError(t, err)
	require.Equal(t, device.Device{
		UUID: "GPU-a", Index: 0, Model: "NVIDIA H100 80GB HBM3", Type: "H100", MemMB: 81920, PCI: "00000000:1B:00.0", NUMA: devices[0].NUMA, NVLink: []int{1},
	}, devices[0])
	require.Equal(t, []int{0}, devices[1].NVLink)
	require.Equal(t, device.Quarantined, devices[1].Health)
	require.True(t, devices[1].Fault)
	processes, err := inv.Processes(context.Background(), "GPU-a")
	require.NoError(t, err)
	require.Equal(t, []device.Process{{Pid: 7, MemMB: 3}}, processes)
	readings, err := inv.Read(context.Background())
	require.NoError(t, err)
	require.Equal(t, device.Reading{UUID: "GPU-a", Utilization: 0.5, MemoryUsed: 1 << 30, Celsius: 61, Watts: 612}, readings[0])
}

// divide turns MIG on for the second GPU, with slices at some places.
func divide(fake *mock.Interface, slices map[int]*mock.Device) {
	whole := fake.DeviceGetHandleByIndexFunc
	fake.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		handle, ret := whole(i)
		gpu := handle.(*mock.Device)
		gpu.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 0, nvml.SUCCESS }
		gpu.GetMigModeFunc = func() (int, int, nvml.Return) { return i, i, nvml.SUCCESS }
		gpu.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
		gpu.GetMigDeviceHandleByIndexFunc = func(place int) (nvml.Device, nvml.Return) {
			if slice := slices[place]; slice != nil {
				return slice, nvml.SUCCESS
			}
			return nil, nvml.ERROR_NOT_FOUND
		}
		return gpu, ret
	}
}

func fakeSlice(uuid, name string, gi int) *mock.Device {
	return &mock.Device{
		GetUUIDFunc:              func() (string, nvml.Return) { return uuid, nvml.SUCCESS },
		GetNameFunc:              func() (string, nvml.Return) { return name, nvml.SUCCESS },
		GetGpuInstanceIdFunc:     func() (int, nvml.Return) { return gi, nvml.SUCCESS },
		GetComputeInstanceIdFunc: func() (int, nvml.Return) { return 0, nvml.SUCCESS },
		GetMemoryInfoFunc:        func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 9856 << 20, Used: 64 << 20}, nvml.SUCCESS },
		GetAttributesFunc: func() (nvml.DeviceAttributes, nvml.Return) {
			return nvml.DeviceAttributes{GpuInstanceSliceCount: 1, ComputeInstanceSliceCount: 1, MemorySizeMB: 9856}, nvml.SUCCESS
		},
	}
}

// The slices of a GPU are listed in place of it, with places of their own. Drivers before R470 do not name their profile.
func TestSlices(t *testing.T) {
	fake := newFake()
	divide(fake, map[int]*mock.Device{0: fakeSlice("MIG-a", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", 9), 3: fakeSlice("MIG-b", "NVIDIA H100 80GB HBM3", 11)})
	inv, err := open(fake)
	require.NoError(t, err)
	defer inv.Close()
	devices, err := inv.List(context.Background())
	require.NoError(t, err)
	require.Len(t, devices, 3)
	require.Equal(t, "GPU-a", devices[0].UUID)
	require.Nil(t, devices[0].Slice)
	require.Equal(t, device.Device{
		UUID: "MIG-a", Index: 9, Model: "NVIDIA H100 80GB HBM3 MIG 1g.10gb", Type: "H100-1g.10gb", MemMB: 9856, PCI: "00000000:43:00.0", NUMA: devices[1].NUMA,
		Slice: &device.Slice{Profile: "1g.10gb", Parent: "GPU-b", GPUInstance: 9},
	}, devices[1])
	require.Equal(t, 12, devices[2].Index)
	require.Equal(t, "H100-1g.10gb", devices[2].Type)
	readings, err := inv.Read(context.Background())
	require.NoError(t, err)
	require.Equal(t, device.Reading{UUID: "MIG-b", Utilization: -1, MemoryUsed: 64 << 20, Celsius: 61, Watts: 612}, readings[3])
}

func TestSlices_aGPUWithoutAnyIsNotUsed(t *testing.T) {
	fake := newFake()
	divide(fake, nil)
	inv, err := open(fake)
	require.NoError(t, err)
	defer inv.Close()
	devices, err := inv.List(context.Background())
	require.NoError(t, err)
	require.Len(t, devices, 2)
	require.Equal(t, device.Quarantined, devices[1].Health)
	require.Equal(t, noSlices, devices[1].HealthReason)
	require.False(t, devices[1].Fault)
}

func TestAHangingDriverDoesNotHangTheAgent(t *testing.T) {
	fake := newFake()
	release := make(chan struct{})
	inv, err := open(fake)
	require.NoError(t, err)
	fake.DeviceGetCountFunc = func() (int, nvml.Return) { <-release; return 0, nvml.SUCCESS }
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	_, err = inv.List(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, device.ErrHung)
	close(release)
	require.NoError(t, inv.Close())
}

func TestNoDriverIsSaidPlainly(t *testing.T) {
	fake := newFake()
	fake.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
	_, err := open(fake)
	require.ErrorContains(t, err, "no NVIDIA driver is installed")
}

func TestTheDriversOwnWishIsHeard(t *testing.T) {
	fake := newFake()
	healthy, err := open(fake)
	require.NoError(t, err)
	defer healthy.Close()
	for action, want := range map[nvml.DeviceGpuRecoveryAction]string{
		nvml.GPU_RECOVERY_ACTION_NONE: "", nvml.GPU_RECOVERY_ACTION_DRAIN_P2P: "",
		nvml.GPU_RECOVERY_ACTION_GPU_RESET: "the driver asks for a reset of the GPU", nvml.GPU_RECOVERY_ACTION_NODE_REBOOT: "the driver asks for a restart of the machine",
	} {
		first, _ := fake.DeviceGetHandleByIndex(0)
		gpu := first.(*mock.Device)
		gpu.GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
			require.EqualValues(t, nvml.FI_DEV_GET_GPU_RECOVERY_ACTION, values[0].FieldId)
			binary.NativeEndian.PutUint32(values[0].Value[:], uint32(action))
			return nvml.SUCCESS
		}
		d, err := healthy.describe(gpu, 0)
		require.NoError(t, err)
		require.Equal(t, want, d.HealthReason)
		require.Equal(t, want != "", d.Fault)
	}
}

func TestXidErrorsAreHandedOn(t *testing.T) {
	fake := newFake()
	events := make(chan nvml.EventData, 1)
	fake.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		return &mock.EventSet{
			WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
				select {
				case e := <-events:
					return e, nvml.SUCCESS
				case <-time.After(time.Millisecond):
					return nvml.EventData{}, nvml.ERROR_TIMEOUT
				}
			},
			FreeFunc: func() nvml.Return { return nvml.SUCCESS },
		}, nvml.SUCCESS
	}
	byIndex := fake.DeviceGetHandleByIndexFunc
	fake.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		handle, ret := byIndex(i)
		handle.(*mock.Device).RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.SUCCESS }
		return handle, ret
	}
	inv, err := open(fake)
	require.NoError(t, err)
	defer inv.Close()
	heard := make(chan string, 1)
	inv.OnXid(func(uuid string, code int) { heard <- uuid + " " + device.XidOf(code).String() })
	gpu, _ := byIndex(1)
	events <- nvml.EventData{Device: gpu, EventType: nvml.EventTypeXidCriticalError, EventData: 79}
	require.Equal(t, "GPU-b Xid 79: GPU has fallen off the bus", <-heard)
	readings, err := inv.Read(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, 1, readings[1].XidErrors)
}

func TestCliqueName_isThatOfARackScaleSystem(t *testing.T) {
	require.Empty(t, cliqueName([16]uint8{}, 7), "NVLink ends at the node")
	cluster := [16]uint8{0: 0xde, 1: 0xad, 15: 0x01}
	require.Equal(t, "dead0000-0000-0000-0000-000000000001.32766", cliqueName(cluster, 32766))
}
