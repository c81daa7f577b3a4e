// Package sim simulates GPUs, so that a cluster can be tried on a machine without any. The processes of jobs are real.
//
// A node's simulated GPUs of one model are connected by NVLink, and are split between two NUMA nodes.
package sim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/agent/device"
)

const (
	// MaxGPUs is the largest number of GPUs of a node: leases are masks of 64 bits.
	MaxGPUs = 64
	// CPUs and MemMB are the resources that a simulated node offers beside its GPUs.
	CPUs  = 64
	MemMB = 512 << 10
)

// models are the known models, with the driver's names and the memory sizes. Other models get 80 GB.
var models = map[string]struct {
	name  string
	memMB int
}{
	"A100": {"NVIDIA A100-SXM4-80GB", 81920},
	"A10":  {"NVIDIA A10", 23028},
	"B200": {"NVIDIA B200", 183359},
	"H100": {"NVIDIA H100 80GB HBM3", 81559},
	"H200": {"NVIDIA H200", 143771},
	"L4":   {"NVIDIA L4", 23034},
	"L40S": {"NVIDIA L40S", 46068},
	"T4":   {"Tesla T4", 15360},
	"V100": {"Tesla V100-SXM2-32GB", 32768},
}

// Inventory is a set of simulated GPUs. They are healthy unless WithFaults says otherwise.
type Inventory struct {
	device.None
	devices []device.Device
	faults  *faults
}

// New makes the GPUs of a specification such as "8xH100", "4xA100,2xH100" or "4xH100,7xH100-1g.10gb": four GPUs, and seven
// slices of another one. The node is part of the UUIDs, so that they
// differ between nodes and are the same after a restart.
func New(node, spec string) (*Inventory, error) {
	inv := &Inventory{}
	for part := range strings.SplitSeq(spec, ",") {
		count, model, ok := strings.Cut(strings.TrimSpace(part), "x")
		model, profile, sliced := cutProfile(model)
		n, err := strconv.Atoi(count)
		if !ok || err != nil || n < 1 || model == "" {
			return nil, fmt.Errorf("simulated GPUs %q: want COUNTxMODEL, such as 8xH100, 4xA100,2xH100 or 7xH100-1g.10gb", spec)
		}
		known, ok := models[strings.ToUpper(model)]
		if !ok {
			known.name, known.memMB = "NVIDIA "+model, 81920
		}
		first := len(inv.devices)
		if first+n > MaxGPUs {
			return nil, fmt.Errorf("simulated GPUs %q: a node has at most %d", spec, MaxGPUs)
		}
		for i := range n {
			d := device.Device{
				UUID:  uuid("GPU", node, first+i),
				Index: first + i, Model: known.name, Type: device.ShortType(known.name), MemMB: known.memMB,
				PCI:    fmt.Sprintf("00000000:%02X:00.0", first+i+1),
				NVLink: others(first, n, first+i), Simulated: true,
			}
			if sliced {
				d = profile.of(d, node, first, i)
			}
			inv.devices = append(inv.devices, d)
		}
	}
	if len(inv.devices) == 0 {
		return nil, errors.New("no simulated GPUs")
	}
	for i := range inv.devices {
		inv.devices[i].NUMA = i * 2 / len(inv.devices)
	}
	return inv, nil
}

func others(first, n, self int) []int {
	var peers []int
	for i := first; i < first+n; i++ {
		if i != self {
			peers = append(peers, i)
		}
	}
	return peers
}

// List returns the GPUs.
func (inv *Inventory) List(context.Context) ([]device.Device, error) {
	wrong, err := inv.faults.current()
	if err != nil || len(wrong) == 0 {
		return inv.devices, err
	}
	list := make([]device.Device, 0, len(inv.devices))
	for _, d := range inv.devices {
		if d, there := afflict(d, wrong[strconv.Itoa(d.Index)]); there {
			list = append(list, d)
		}
	}
	return list, nil
}

// Processes returns the processes put on a GPU.
func (inv *Inventory) Processes(_ context.Context, uuid string) ([]device.Process, error) {
	wrong, err := inv.faults.current()
	if err != nil || len(wrong) == 0 {
		return nil, err
	}
	for _, d := range inv.devices {
		if d.UUID == uuid {
			return stuck(wrong[strconv.Itoa(d.Index)]), nil
		}
	}
	return nil, nil
}

// Read returns readings of idle GPUs.
func (inv *Inventory) Read(context.Context) ([]device.Reading, error) {
	wrong, err := inv.faults.current()
	if err != nil {
		return nil, err
	}
	readings := make([]device.Reading, len(inv.devices))
	for i, d := range inv.devices {
		readings[i] = device.Reading{UUID: d.UUID, Celsius: 30, Watts: 60}
		readings[i].Utilization, readings[i].MemoryUsed = busy(wrong[strconv.Itoa(d.Index)])
		if strings.HasPrefix(wrong[strconv.Itoa(d.Index)], "xid ") {
			readings[i].XidErrors = 1
		}
	}
	return readings, nil
}
