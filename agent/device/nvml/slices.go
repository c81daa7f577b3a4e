//go:build linux && cgo

package nvml

import (
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/mindcoordinator/mind/agent/device"
)

// divided reports whether the driver offers slices of a GPU (MIG) in place of it.
func divided(handle nvml.Device) (is bool) {
	defer func() { _ = recover() }() // see judge
	mode, _, ret := handle.GetMigMode()
	return ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE
}

// sliceHandle is a slice, and its place on its GPU.
type sliceHandle struct {
	nvml.Device
	place int
}

// sliceHandles returns the slices of a GPU that is divided.
func sliceHandles(gpu nvml.Device) (all []sliceHandle) {
	defer func() { _ = recover() }() // see judge
	most, ret := gpu.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	for place := range most {
		// Places may be empty.
		if handle, ret := gpu.GetMigDeviceHandleByIndex(place); ret == nvml.SUCCESS {
			all = append(all, sliceHandle{handle, place})
		}
	}
	return all
}

// slices describes the slices of a GPU. They share its health. gpus is the number of GPUs of the machine.
func (inv *Inventory) slices(gpu nvml.Device, whole device.Device, gpus int) (devices []device.Device) {
	for _, handle := range sliceHandles(gpu) {
		index, ok := device.SliceIndex(gpus, whole.Index, handle.place)
		if !ok {
			continue
		}
		if d, ok := inv.slice(handle, whole); ok {
			d.Index = index
			devices = append(devices, d)
		}
	}
	return devices
}

func (inv *Inventory) slice(handle nvml.Device, whole device.Device) (d device.Device, ok bool) {
	defer func() {
		if recover() != nil { // see judge
			ok = false
		}
	}()
	d = whole
	d.Clique, d.NVLink = "", nil // a slice has no NVLink
	d.Slice = &device.Slice{Parent: whole.UUID}
	var ret [3]nvml.Return
	d.UUID, ret[0] = handle.GetUUID()
	d.Slice.GPUInstance, ret[1] = handle.GetGpuInstanceId()
	d.Slice.ComputeInstance, ret[2] = handle.GetComputeInstanceId()
	for _, ret := range ret {
		if ret != nvml.SUCCESS {
			return d, false // it was removed meanwhile
		}
	}
	attributes, attributed := handle.GetAttributes()
	switch memory, ret := handle.GetMemoryInfo(); {
	case ret == nvml.SUCCESS:
		d.MemMB = int(memory.Total >> 20)
	case attributed == nvml.SUCCESS:
		d.MemMB = int(attributes.MemorySizeMB)
	default:
		return d, false
	}
	if name, ret := handle.GetName(); ret == nvml.SUCCESS {
		_, d.Slice.Profile, _ = strings.Cut(name, " MIG ")
	}
	if d.Slice.Profile == "" {
		if attributed != nvml.SUCCESS {
			return d, false
		}
		d.Slice.Profile = device.SliceProfile(int(attributes.ComputeInstanceSliceCount), int(attributes.GpuInstanceSliceCount), int(attributes.MemorySizeMB))
	}
	d.Model, d.Type = device.SliceModel(whole.Model, d.Slice.Profile), device.SliceType(whole.Type, d.Slice.Profile)
	return d, true
}

// noSlices is the reason why a GPU that is divided into nothing is not used.
const noSlices = "MIG is on, and it has no instances: make some (nvidia-smi mig -cgi ... -C), or turn MIG off"

// readSlice reads the sensors of a slice. Those that only the GPU has count for each of its slices.
func (inv *Inventory) readSlice(handle nvml.Device, whole device.Reading) (r device.Reading) {
	r = whole
	r.Utilization, r.MemoryUsed = -1, -1 // the driver does not know how busy a slice is
	defer func() { _ = recover() }()     // see judge
	r.UUID, _ = handle.GetUUID()
	if memory, ret := handle.GetMemoryInfo(); ret == nvml.SUCCESS {
		r.MemoryUsed = float64(memory.Used)
	}
	return r
}
