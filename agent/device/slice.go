package device

import "fmt"

// Slice says which part of a GPU a device is: an instance of NVIDIA's Multi-Instance GPU (MIG), which has processors and
// memory of its own. The driver offers it in place of the GPU, and a process can use one of them.
type Slice struct {
	// Profile is its size, such as 1g.10gb.
	Profile string
	// Parent is the UUID of the GPU.
	Parent string
	// GPUInstance and ComputeInstance are its numbers on the GPU.
	GPUInstance, ComputeInstance int
}

const (
	// MaxSlices is the largest number of slices of a GPU.
	MaxSlices = 7
	// maxIndex is the largest index of a device: leases are masks of 64 bits.
	maxIndex = 63
)

// SliceIndex returns the index of a slice: the one at a place on a GPU, on a machine with so many GPUs. Slices come behind
// all GPUs, so that no index depends on how the other GPUs are divided. It returns false if there are too many GPUs.
func SliceIndex(gpus, gpu, place int) (index int, ok bool) {
	index = gpus + gpu*MaxSlices + place
	return index, place < MaxSlices && index <= maxIndex
}

// SliceType is the type that jobs ask for, such as H100-1g.10gb.
func SliceType(gpuType, profile string) string { return gpuType + "-" + profile }

// SliceModel is the model of a slice, spelled as newer drivers do.
func SliceModel(model, profile string) string { return model + " MIG " + profile }

// SliceProfile names a size as the driver does. compute and slices count the processors, in sevenths of a GPU, that a compute
// instance and its GPU instance have.
func SliceProfile(compute, slices, memMB int) string {
	gb := (memMB + 1023) >> 10
	if compute > 0 && compute != slices {
		return fmt.Sprintf("%dc.%dg.%dgb", compute, slices, gb)
	}
	return fmt.Sprintf("%dg.%dgb", slices, gb)
}
