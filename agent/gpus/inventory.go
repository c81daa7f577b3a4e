package gpus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent/device"
	"github.com/mindcoordinator/mind/agent/device/probe"
	"github.com/mindcoordinator/mind/agent/device/sim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Open opens the configured inventory. The second result reports whether the GPUs are simulated. A separate process asks
// the driver.
func Open(ctx context.Context, node, spec, dataDir string, log *slog.Logger) (device.Inventory, bool, error) {
	switch spec {
	case "none":
		return device.None{}, false, nil
	case "", "auto":
		client := probe.New(probe.Config{})
		bounded, cancel := context.WithTimeout(ctx, laterLook)
		defer cancel()
		// Without a driver no child process is needed. A driver that does not answer counts as one.
		if _, err := client.List(bounded); errors.Is(err, device.ErrNoDriver) {
			log.Info("no GPUs", "why", err)
			_ = client.Close()
			return device.None{}, false, nil
		}
		return client, false, nil
	}
	inv, err := sim.New(node, spec)
	if err != nil {
		return nil, false, err
	}
	return inv.WithFaults(filepath.Join(dataDir, sim.FaultsFile)), true, nil
}

func gpuOf(d device.Device) *v1.Gpu {
	gpu := &v1.Gpu{
		Uuid: d.UUID, Index: int32(d.Index), Model: d.Model, GpuType: d.Type, MemoryMb: int32(d.MemMB), PciBusId: d.PCI,
		NumaNode: int32(d.NUMA), Health: v1.GpuHealth_HEALTHY, HealthReason: d.HealthReason, Simulated: d.Simulated,
	}
	switch d.Health {
	case device.Quarantined:
		gpu.Health = v1.GpuHealth_QUARANTINED
	case device.Vanished:
		gpu.Health = v1.GpuHealth_VANISHED
	}
	if slice := d.Slice; slice != nil {
		gpu.MigProfile, gpu.MigInstance = slice.Profile, fmt.Sprintf("%s/%d/%d", slice.Parent, slice.GPUInstance, slice.ComputeInstance)
	}
	for _, peer := range d.NVLink {
		gpu.NvlinkPeers = append(gpu.NvlinkPeers, int32(peer))
	}
	return gpu
}

// parent returns the UUID of the GPU that a slice is a part of; empty for a whole GPU.
func parent(gpu *v1.Gpu) string {
	uuid, _, _ := strings.Cut(gpu.GetMigInstance(), "/")
	return uuid
}

// Same reports whether two lists are equal.
func Same(a, b []*v1.Gpu) bool {
	return slices.EqualFunc(a, b, func(x, y *v1.Gpu) bool { return proto.Equal(x, y) })
}
