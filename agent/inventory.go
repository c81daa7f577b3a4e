package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent/device"
	"github.com/mindcoordinator/mind/agent/device/nvml"
	"github.com/mindcoordinator/mind/agent/device/sim"
	"github.com/mindcoordinator/mind/agent/device/smi"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// firstLook bounds the first question to the driver: it may have to wake
	// the GPUs up.
	firstLook = 30 * time.Second
	// lookInterval is how often the GPUs are looked at, lookTimeout for how long.
	lookInterval = 10 * time.Second
	lookTimeout  = 8 * time.Second
)

// openInventory opens what the configuration says. The second result tells
// whether the GPUs are simulated.
func openInventory(node, spec string, log *slog.Logger) (device.Inventory, bool, error) {
	switch spec {
	case "none":
		return device.None{}, false, nil
	case "", "auto":
		inv, err := nvml.Open()
		if err == nil {
			return inv, false, nil
		}
		log.Info("no GPUs through NVML", "why", err)
		if inv, err := smi.New(); err == nil {
			return inv, false, nil
		}
		return device.None{}, false, nil
	}
	inv, err := sim.New(node, spec)
	if err != nil {
		return nil, false, err
	}
	return inv, true, nil
}

// gpuWatch knows the GPUs of the node, and those that were there once.
type gpuWatch struct {
	inventory device.Inventory
	log       *slog.Logger

	mu   sync.Mutex
	last []*v1.Gpu
	// inUse are GPUs that somebody still used after their task had ended.
	inUse map[string]string
	// shifted: the driver counts otherwise than it did when the agent began.
	shifted bool
}

// look asks the driver.
func (g *gpuWatch) look(ctx context.Context) error {
	devices, err := g.inventory.List(ctx)
	if err != nil {
		// One failed question is no verdict on the GPUs.
		return fmt.Errorf("list GPUs: %w", err)
	}
	g.lookAgain(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	next := make([]*v1.Gpu, 0, len(devices))
	for _, d := range devices {
		gpu := gpuOf(d)
		if reason, ok := g.inUse[d.UUID]; ok && gpu.Health == v1.GpuHealth_HEALTHY {
			gpu.Health, gpu.HealthReason = v1.GpuHealth_QUARANTINED, reason
		}
		// Leases are by index: a GPU keeps the one that it had, also when the
		// driver renumbers because another vanished.
		if at := slices.IndexFunc(g.last, func(old *v1.Gpu) bool { return old.GetUuid() == d.UUID }); at >= 0 && g.last[at].GetIndex() != gpu.GetIndex() {
			gpu.Index, gpu.NvlinkPeers = g.last[at].GetIndex(), g.last[at].GetNvlinkPeers()
			g.shifted = true
		}
		next = append(next, gpu)
	}
	for _, old := range g.last {
		if !slices.ContainsFunc(next, func(n *v1.Gpu) bool { return n.GetUuid() == old.GetUuid() }) {
			gone := proto.Clone(old).(*v1.Gpu)
			if gone.GetHealth() != v1.GpuHealth_VANISHED {
				g.log.Error("a GPU vanished", "uuid", gone.GetUuid(), "index", gone.GetIndex())
				gone.Health, gone.HealthReason = v1.GpuHealth_VANISHED, "the driver does not list it any more"
			}
			next = append(next, gone)
		}
	}
	g.last = next
	return nil
}

// lookAgain asks whether the GPUs that were in use are empty now.
func (g *gpuWatch) lookAgain(ctx context.Context) {
	g.mu.Lock()
	uuids := slices.Collect(maps.Keys(g.inUse))
	g.mu.Unlock()
	for _, uuid := range uuids {
		if processes, err := g.inventory.Processes(ctx, uuid); err == nil && len(processes) == 0 {
			g.mu.Lock()
			delete(g.inUse, uuid)
			g.mu.Unlock()
		}
	}
}

// quarantine sets a GPU aside until it is empty.
func (g *gpuWatch) quarantine(uuid, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inUse[uuid] = reason
	g.last = slices.Clone(g.last)
	for i, gpu := range g.last {
		if gpu.GetUuid() == uuid {
			ill := proto.Clone(gpu).(*v1.Gpu)
			ill.Health, ill.HealthReason = v1.GpuHealth_QUARANTINED, reason
			g.last[i] = ill
		}
	}
}

// visible is the value of CUDA_VISIBLE_DEVICES for leased GPUs: their indices,
// which many programs parse, or their UUIDs once the driver has renumbered.
func (g *gpuWatch) visible(indices []int32) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	names := make([]string, 0, len(indices))
	for _, index := range indices {
		name := strconv.Itoa(int(index))
		if at := slices.IndexFunc(g.last, func(gpu *v1.Gpu) bool { return gpu.GetIndex() == index }); g.shifted && at >= 0 {
			name = g.last[at].GetUuid()
		}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}

func (g *gpuWatch) current() []*v1.Gpu {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

func (g *gpuWatch) run(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		bounded, cancel := context.WithTimeout(ctx, lookTimeout)
		if err := g.look(bounded); err != nil && ctx.Err() == nil {
			g.log.Error("cannot look at the GPUs", "error", err)
		}
		cancel()
	}
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
	for _, peer := range d.NVLink {
		gpu.NvlinkPeers = append(gpu.NvlinkPeers, int32(peer))
	}
	return gpu
}

func sameGPUs(a, b []*v1.Gpu) bool {
	return slices.EqualFunc(a, b, func(x, y *v1.Gpu) bool { return proto.Equal(x, y) })
}

// emptyPatience is how long the driver may take to show a GPU as empty after
// the last process of a task is gone.
const emptyPatience = 5 * time.Second

// verifyEmpty sees to it that the GPUs of a task that ended are not handed on
// while somebody still uses them: such a GPU is set aside. A GPU of which the
// task had a share is not looked at: others have theirs.
func (a *agent) verifyEmpty(t *task, gpus string, shared bool) {
	if a.simulated || shared || gpus == "" {
		return
	}
	for name := range strings.SplitSeq(gpus, ",") {
		for _, gpu := range a.gpus.current() {
			if name == gpu.GetUuid() || name == strconv.Itoa(int(gpu.GetIndex())) {
				a.verifyGPU(t, gpu.GetUuid())
			}
		}
	}
}

func (a *agent) verifyGPU(t *task, uuid string) {
	ctx, cancel := context.WithTimeout(context.Background(), emptyPatience)
	defer cancel()
	for users := 0; ; sleep(ctx, 100*time.Millisecond) {
		processes, err := a.gpus.inventory.Processes(ctx, uuid)
		switch {
		case err == nil && len(processes) == 0:
			return
		case err == nil:
			users = len(processes)
		case users == 0 || ctx.Err() == nil:
			// Not known is not ill: the next look judges the GPU.
			a.log.Warn("cannot see who uses a GPU", "gpu", uuid, "error", err)
			return
		}
		if ctx.Err() != nil {
			a.log.Error("a GPU is still in use after its task ended", "gpu", uuid, "job", t.key.job, "processes", users)
			a.gpus.quarantine(uuid, "still in use by a process after "+t.key.job+" had ended")
			return
		}
	}
}

// machine is what the node offers beside GPUs.
func (c Config) machine(simulated bool) (cpus, memMB int) {
	cpus, memMB = runtime.NumCPU(), memoryMB()
	if simulated {
		cpus, memMB = sim.CPUs, sim.MemMB
	}
	if c.CPUs > 0 {
		cpus = c.CPUs
	}
	if c.MemMB > 0 {
		memMB = c.MemMB
	}
	return cpus, memMB
}

func memoryMB() int {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kb, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			return kb / 1024
		}
	}
	return 0
}

// bootID changes when the machine restarts.
func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
