//go:build linux && cgo

package nvml

// #cgo CFLAGS: -Wno-deprecated-declarations
import "C"

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/mindcoordinator/mind/agent/device"
)

// Inventory lists the GPUs of the driver.
type Inventory struct {
	lib   nvml.Interface
	bound *device.Bound

	mu     sync.Mutex
	xids   map[string]float64 // by UUID
	onXid  func(uuid string, code int)
	events nvml.EventSet
	stop   chan struct{}
	ended  chan struct{}
}

// Open loads the library and initializes the driver. The error says what is missing.
func Open() (device.Inventory, error) { return open(nvml.New()) }

func open(lib nvml.Interface) (*Inventory, error) {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, fmt.Errorf("initialise NVML: %s", explain(lib, ret))
	}
	inv := &Inventory{lib: lib, bound: device.NewBound(), xids: make(map[string]float64), stop: make(chan struct{}), ended: make(chan struct{})}
	inv.listenForXids()
	return inv, nil
}

// explain names an error without the library, which may not be there.
func explain(lib nvml.Interface, ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "libnvidia-ml.so.1 was not found: no NVIDIA driver is installed"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the NVIDIA driver is not loaded"
	}
	return nvml.ErrorString(ret)
}

// Close ends the use of the library.
func (inv *Inventory) Close() error {
	close(inv.stop)
	<-inv.ended
	if ret := inv.lib.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("shut NVML down: %s", nvml.ErrorString(ret))
	}
	return nil
}

// List returns the GPUs.
func (inv *Inventory) List(ctx context.Context) ([]device.Device, error) {
	var devices []device.Device
	err := inv.bound.Run(ctx, func() error {
		list, err := inv.list()
		devices = list
		return err
	})
	if err != nil {
		return nil, err
	}
	return devices, nil
}

func (inv *Inventory) list() ([]device.Device, error) {
	count, ret := inv.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("count GPUs: %s", nvml.ErrorString(ret))
	}
	devices := make([]device.Device, 0, count)
	var slices []device.Device
	byBus := make(map[string]int)
	handles := make([]nvml.Device, 0, count)
	for i := range count {
		handle, ret := inv.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			// The GPU fell off the bus. The caller compares the list with the earlier one, and sees that it is missing.
			continue
		}
		d, err := inv.describe(handle, i)
		if err != nil {
			continue
		}
		if divided(handle) {
			if some := inv.slices(handle, d, count); len(some) > 0 {
				slices = append(slices, some...)
				continue
			}
			if d.Health == device.Healthy {
				d.Health, d.HealthReason = device.Quarantined, noSlices
			}
		}
		byBus[d.PCI] = len(devices)
		devices = append(devices, d)
		handles = append(handles, handle)
	}
	inv.link(devices, handles, byBus)
	return append(devices, slices...), nil
}

func (inv *Inventory) describe(handle nvml.Device, index int) (device.Device, error) {
	d := device.Device{Index: index, NUMA: -1}
	var ret nvml.Return
	if d.UUID, ret = handle.GetUUID(); ret != nvml.SUCCESS {
		return d, fmt.Errorf("read UUID of GPU %d: %s", index, nvml.ErrorString(ret))
	}
	d.Model, _ = handle.GetName()
	d.Type = device.ShortType(d.Model)
	if memory, ret := handle.GetMemoryInfo(); ret == nvml.SUCCESS {
		d.MemMB = int(memory.Total >> 20)
	} else {
		d.Health, d.HealthReason = device.Quarantined, "its memory cannot be read: "+nvml.ErrorString(ret)
		// The driver returns these two for a GPU that is gone or needs a reset; any other error may be temporary.
		d.Fault = ret == nvml.ERROR_GPU_IS_LOST || ret == nvml.ERROR_RESET_REQUIRED
	}
	if pci, ret := handle.GetPciInfo(); ret == nvml.SUCCESS {
		d.PCI = text(pci.BusId[:])
		d.NUMA = numaNode(d.PCI)
	}
	inv.judge(handle, &d)
	d.Clique = inv.clique(handle)
	return d, nil
}

// clique returns "ClusterUUID.CliqueId" for a GPU that the fabric manager has added to an NVLink domain of several
// nodes.
func (inv *Inventory) clique(handle nvml.Device) (name string) {
	// A mock may lack these calls.
	defer func() {
		if recover() != nil {
			name = ""
		}
	}()
	// A library that is older than rack-scale systems lacks the function, and calling it would end the process.
	if inv.lib.Extensions().LookupSymbol("nvmlDeviceGetGpuFabricInfo") != nil {
		return ""
	}
	info, ret := handle.GetGpuFabricInfoV().V1()
	if ret != nvml.SUCCESS || info.State != nvml.GPU_FABRIC_STATE_COMPLETED || nvml.Return(info.Status) != nvml.SUCCESS {
		return ""
	}
	return cliqueName(info.ClusterUuid, info.CliqueId)
}

// cliqueName returns "" for a GPU whose NVLink ends at its own node: its cluster is all zeros.
func cliqueName(cluster [16]uint8, id uint32) string {
	if cluster == [16]uint8{} {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x.%d", cluster[:4], cluster[4:6], cluster[6:8], cluster[8:10], cluster[10:], id)
}

// judge sets the health of a GPU from the driver's counters. A counter that the GPU does not support counts as good.
func (inv *Inventory) judge(handle nvml.Device, d *device.Device) {
	if d.Health != device.Healthy {
		return
	}
	// A mock, or an old library, may lack these calls.
	defer func() { _ = recover() }()
	if count, ret := handle.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); ret == nvml.SUCCESS && count > 0 {
		d.Health, d.HealthReason, d.Fault = device.Quarantined, fmt.Sprintf("%d uncorrected memory errors since the last reset", count), true
		return
	}
	if _, _, pending, failed, ret := handle.GetRemappedRows(); ret == nvml.SUCCESS && (pending || failed) {
		d.Health, d.HealthReason = device.Quarantined, "memory rows wait for a reset to be remapped"
		if failed {
			d.HealthReason, d.Fault = "memory rows could not be remapped", true
		}
		return
	}
	inv.recovery(handle, d)
}

// recovery asks the driver, if it is new enough, for the recovery action of the GPU.
func (inv *Inventory) recovery(handle nvml.Device, d *device.Device) {
	values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	if ret := handle.GetFieldValues(values); ret != nvml.SUCCESS || nvml.Return(values[0].NvmlReturn) != nvml.SUCCESS {
		return
	}
	wants := ""
	switch action := nvml.DeviceGpuRecoveryAction(binary.NativeEndian.Uint32(values[0].Value[:4])); action {
	case nvml.GPU_RECOVERY_ACTION_GPU_RESET, nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET:
		wants = "a reset of the GPU"
	case nvml.GPU_RECOVERY_ACTION_NODE_REBOOT:
		wants = "a restart of the machine"
	default:
		return
	}
	d.Health, d.HealthReason, d.Fault = device.Quarantined, "the driver asks for "+wants, true
}

// OnXid sets the function that is called for each Xid error.
func (inv *Inventory) OnXid(f func(uuid string, code int)) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.onXid = f
}

// link fills in which GPUs reach each other over NVLink. GPUs on the same switches do.
func (inv *Inventory) link(devices []device.Device, handles []nvml.Device, byBus map[string]int) {
	defer func() { _ = recover() }() // see judge
	switched := make([]bool, len(devices))
	for i, handle := range handles {
		peers := make(map[int]bool)
		for l := range nvml.NVLINK_MAX_LINKS {
			if state, ret := handle.GetNvLinkState(l); ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
				continue
			}
			kind, ret := handle.GetNvLinkRemoteDeviceType(l)
			if ret == nvml.SUCCESS && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
				switched[i] = true
				continue
			}
			remote, ret := handle.GetNvLinkRemotePciInfo(l)
			if ret != nvml.SUCCESS {
				continue
			}
			if peer, ok := byBus[text(remote.BusId[:])]; ok && peer != i {
				peers[peer] = true
			}
		}
		for peer := range devices {
			if peers[peer] {
				devices[i].NVLink = append(devices[i].NVLink, devices[peer].Index)
			}
		}
	}
	for i := range devices {
		for peer := range devices {
			if i != peer && switched[i] && switched[peer] {
				devices[i].NVLink = append(devices[i].NVLink, devices[peer].Index)
			}
		}
	}
}

// Processes returns the processes that compute on a GPU.
func (inv *Inventory) Processes(ctx context.Context, uuid string) ([]device.Process, error) {
	var processes []device.Process
	err := inv.bound.Run(ctx, func() error {
		handle, ret := inv.lib.DeviceGetHandleByUUID(uuid)
		if ret != nvml.SUCCESS {
			return fmt.Errorf("find GPU %s: %s", uuid, nvml.ErrorString(ret))
		}
		infos, ret := handle.GetComputeRunningProcesses()
		if ret != nvml.SUCCESS {
			return fmt.Errorf("list processes on GPU %s: %s", uuid, nvml.ErrorString(ret))
		}
		list := make([]device.Process, 0, len(infos))
		for _, info := range infos {
			list = append(list, device.Process{Pid: int(info.Pid), MemMB: int(info.UsedGpuMemory >> 20)})
		}
		processes = list
		return nil
	})
	if err != nil {
		return nil, err
	}
	return processes, nil
}

// Read reads the sensors.
func (inv *Inventory) Read(ctx context.Context) ([]device.Reading, error) {
	var readings []device.Reading
	err := inv.bound.Run(ctx, func() error {
		count, ret := inv.lib.DeviceGetCount()
		if ret != nvml.SUCCESS {
			return fmt.Errorf("count GPUs: %s", nvml.ErrorString(ret))
		}
		list := make([]device.Reading, 0, count)
		for i := range count {
			handle, ret := inv.lib.DeviceGetHandleByIndex(i)
			if ret != nvml.SUCCESS {
				continue
			}
			whole := inv.read(handle)
			list = append(list, whole)
			if divided(handle) {
				for _, slice := range sliceHandles(handle) {
					list = append(list, inv.readSlice(slice, whole))
				}
			}
		}
		readings = list
		return nil
	})
	if err != nil {
		return nil, err
	}
	return readings, nil
}

func (inv *Inventory) read(handle nvml.Device) (r device.Reading) {
	r = device.Reading{Utilization: -1, MemoryUsed: -1, Celsius: -1, Watts: -1}
	defer func() { _ = recover() }() // see judge
	r.UUID, _ = handle.GetUUID()
	inv.mu.Lock()
	r.XidErrors = inv.xids[r.UUID]
	inv.mu.Unlock()
	if memory, ret := handle.GetMemoryInfo(); ret == nvml.SUCCESS {
		r.MemoryUsed = float64(memory.Used)
	}
	if use, ret := handle.GetUtilizationRates(); ret == nvml.SUCCESS {
		r.Utilization = float64(use.Gpu) / 100
	}
	if celsius, ret := handle.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
		r.Celsius = float64(celsius)
	}
	if milliwatts, ret := handle.GetPowerUsage(); ret == nvml.SUCCESS {
		r.Watts = float64(milliwatts) / 1000
	}
	return r
}

// listenForXids counts the driver's error events for as long as the inventory
// is open.
func (inv *Inventory) listenForXids() {
	const waitMilliseconds = 500
	set, ok := inv.subscribe()
	if !ok {
		close(inv.ended)
		return
	}
	go func() {
		defer close(inv.ended)
		defer set.Free()
		for {
			select {
			case <-inv.stop:
				return
			default:
			}
			event, ret := set.Wait(waitMilliseconds)
			switch {
			case ret == nvml.ERROR_TIMEOUT:
			case ret != nvml.SUCCESS:
				return
			case event.EventType == nvml.EventTypeXidCriticalError:
				if uuid, ret := event.Device.GetUUID(); ret == nvml.SUCCESS {
					inv.mu.Lock()
					inv.xids[uuid]++
					heard := inv.onXid
					inv.mu.Unlock()
					if heard != nil {
						heard(uuid, int(event.EventData))
					}
				}
			}
		}
	}()
}

func (inv *Inventory) subscribe() (set nvml.EventSet, ok bool) {
	defer func() {
		if recover() != nil { // see judge
			ok = false
		}
	}()
	set, ret := inv.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return nil, false
	}
	count, ret := inv.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, false
	}
	for i := range count {
		if handle, ret := inv.lib.DeviceGetHandleByIndex(i); ret == nvml.SUCCESS {
			_ = handle.RegisterEvents(nvml.EventTypeXidCriticalError, set)
			ok = true
		}
	}
	return set, ok
}

// text reads a C string, whose characters are signed on some machines.
func text[char int8 | uint8](chars []char) string {
	var s strings.Builder
	for _, c := range chars {
		if c == 0 {
			break
		}
		s.WriteByte(byte(c))
	}
	return strings.ToUpper(s.String())
}

// numaNode asks the kernel for the NUMA node of a GPU. The kernel's bus id has a shorter domain than the driver's.
func numaNode(pci string) int {
	domain, rest, ok := strings.Cut(strings.ToLower(pci), ":")
	if !ok || len(domain) < 4 {
		return -1
	}
	data, err := os.ReadFile(filepath.Join("/sys/bus/pci/devices", domain[len(domain)-4:]+":"+rest, "numa_node"))
	if err != nil {
		return -1
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return -1
	}
	return node
}
