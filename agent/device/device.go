// Package device lists the GPUs of a node, their health and the processes that use them.
//
// Contract: an Inventory lists the GPUs of one node. Three implementations are in sub-packages: nvml (the driver's library;
// needs cgo), smi (parses the output of nvidia-smi; slower, needs no cgo) and sim (simulated GPUs, for development).
// Package probe runs the first two in a process of its own, which is killed when the driver hangs. Agents use that.
//
// Guarantees: List returns GPUs ordered by index. Calls return when their
// context ends, also when the driver hangs; the error then is ErrHung.
package device

import (
	"context"
	"errors"
	"strings"
)

// ErrHung is returned when the driver did not answer in time.
var ErrHung = errors.New("the GPU driver does not answer")

// ErrNoDriver is returned if the machine has no driver.
var ErrNoDriver = errors.New("no GPU driver")

// Health of a GPU.
type Health int

// The states of health. Their names are the ones of GpuHealth in the api.
const (
	Healthy Health = iota
	Quarantined
	Vanished
)

// Device is one GPU.
type Device struct {
	UUID  string
	Index int
	// Model is the driver's name for the GPU, Type its short form, such as "H100".
	Model string
	Type  string
	MemMB int
	PCI   string
	// NUMA is the NUMA node closest to the GPU; -1: unknown.
	NUMA int
	// NVLink lists the indices of the GPUs connected to this one by NVLink.
	NVLink       []int
	Health       Health
	HealthReason string
	// Fault: the problem damages the work that runs on the GPU. A GPU that is Quarantined without Fault only gets no
	// new work.
	Fault     bool
	Simulated bool
	// Clique is the NVLink domain of a rack-scale system: the GPUs of several nodes that reach each other over NVLink. Empty:
	// there is none.
	Clique string
	// Slice is set if the device is a part of a GPU.
	Slice *Slice
}

// Process is a process that uses a GPU.
type Process struct {
	Pid   int
	MemMB int
}

// Reading holds the sensor values of a GPU. A negative number is unknown.
type Reading struct {
	UUID        string
	Utilization float64 // 0 to 1
	MemoryUsed  float64 // bytes
	Celsius     float64
	Watts       float64
	XidErrors   float64 // since the agent started
}

// Inventory gives access to the GPUs of a node.
type Inventory interface {
	// List returns the GPUs, ordered by index.
	List(ctx context.Context) ([]Device, error)
	// Processes returns the processes on the GPU with the UUID.
	Processes(ctx context.Context, uuid string) ([]Process, error)
	// Read reads the sensors of all GPUs.
	Read(ctx context.Context) ([]Reading, error)
	// Close releases the driver.
	Close() error
}

// BulkProcesses is an Inventory that lists the processes on several GPUs in one call.
type BulkProcesses interface {
	// ProcessesOf returns the processes on the GPUs, by UUID.
	ProcessesOf(ctx context.Context, uuids []string) (map[string][]Process, error)
}

// ProcessesOf lists the processes on the GPUs, in one call if inv supports it.
func ProcessesOf(ctx context.Context, inv Inventory, uuids []string) (map[string][]Process, error) {
	if bulk, ok := inv.(BulkProcesses); ok {
		return bulk.ProcessesOf(ctx, uuids)
	}
	users := make(map[string][]Process, len(uuids))
	for _, uuid := range uuids {
		processes, err := inv.Processes(ctx, uuid)
		if err != nil {
			return nil, err
		}
		users[uuid] = processes
	}
	return users, nil
}

// XidSource is an Inventory that reports the driver's errors when they happen.
type XidSource interface {
	// OnXid sets the function that is called for each error, on any goroutine.
	OnXid(func(uuid string, code int))
}

// ShortType derives the type that jobs ask for from the driver's name:
// "NVIDIA H100 80GB HBM3" is an H100, "NVIDIA A100-SXM4-40GB" an A100,
// "Tesla V100-PCIE-16GB" a V100, "NVIDIA GeForce RTX 4090" an RTX4090 and
// "NVIDIA RTX 6000 Ada Generation" an RTX6000ADA.
func ShortType(model string) string {
	words := strings.FieldsFunc(model, func(r rune) bool { return r == ' ' || r == '-' || r == '_' })
	for len(words) > 0 {
		switch strings.ToLower(words[0]) {
		case "nvidia", "tesla", "geforce", "quadro", "graphics":
			words = words[1:]
			continue
		}
		break
	}
	if len(words) == 0 {
		return ""
	}
	short := strings.ToUpper(words[0])
	rest := words[1:]
	if (short == "RTX" || short == "GTX" || short == "TITAN") && len(rest) > 0 {
		short += strings.ToUpper(rest[0])
		rest = rest[1:]
	}
	if len(rest) > 0 {
		switch strings.ToLower(rest[0]) {
		case "ti", "super", "ada", "blackwell":
			short += strings.ToUpper(rest[0])
		}
	}
	return short
}

// None is the Inventory of a node without GPUs.
type None struct{}

// List returns no GPUs.
func (None) List(context.Context) ([]Device, error) { return nil, nil }

// Processes returns no processes.
func (None) Processes(context.Context, string) ([]Process, error) { return nil, nil }

// Read returns no readings.
func (None) Read(context.Context) ([]Reading, error) { return nil, nil }

// Close does nothing.
func (None) Close() error { return nil }
