package gpus

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// commit writes changes to disk and then reports them: a failed GPU must not come back after a power cut. Readers do not
// wait for the disk.
func (g *Monitor) commit() {
	g.saving.Lock()
	defer g.saving.Unlock()
	g.mu.Lock()
	known, aside := g.known, maps.Clone(g.aside)
	next := make([]*v1.Gpu, 0, len(known))
	for _, gpu := range known {
		next = append(next, g.judged(gpu))
	}
	record := gpuRecord{BootID: g.bootID, Spec: g.spec, EnabledAt: g.enabledAt, Doubt: g.doubt}
	if !g.placed {
		record.EnabledAt = 0
	}
	g.mu.Unlock()
	for _, uuid := range slices.Sorted(maps.Keys(aside)) {
		record.Quarantined = append(record.Quarantined, aside[uuid])
	}
	g.save(record, known)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kept = aside
	if !Same(next, g.last) {
		g.last = next
		select {
		case g.changed <- struct{}{}:
		default:
		}
	}
}

// save writes the record if it has changed, which is rare. The caller holds saving.
func (g *Monitor) save(record gpuRecord, known []*v1.Gpu) {
	if g.dir == "" {
		return
	}
	digest, err := json.Marshal(struct {
		Record gpuRecord
		Known  []string
	}{record, describe(known)})
	if err == nil && !bytes.Equal(digest, g.written) {
		if err = writeGPUs(g.dir, record, known); err == nil {
			g.written = digest
		}
	}
	if err != nil {
		g.log.Error("cannot write the record of the GPUs", "error", err)
	}
}

func describe(gpus []*v1.Gpu) []string {
	names := make([]string, 0, len(gpus))
	for _, gpu := range gpus {
		names = append(names, fmt.Sprintf("%s %d %s %d", gpu.GetUuid(), gpu.GetIndex(), gpu.GetModel(), gpu.GetMemoryMb()))
	}
	return names
}

// judged returns a GPU with its health.
func (g *Monitor) judged(gpu *v1.Gpu) *v1.Gpu {
	uuid := gpu.GetUuid()
	q, aside := g.aside[uuid]
	health, reason := gpu.GetHealth(), gpu.GetHealthReason()
	switch {
	case g.missing[uuid] >= missingLooks:
		health, reason = v1.GpuHealth_VANISHED, "the driver no longer lists it"
	case aside && q.Cause == causeFault:
		health, reason = v1.GpuHealth_QUARANTINED, q.text()
	case health != v1.GpuHealth_HEALTHY:
	case aside:
		health, reason = v1.GpuHealth_QUARANTINED, q.text()
	case g.missing[uuid] > 0:
		health, reason = v1.GpuHealth_QUARANTINED, "the driver did not list it in the last check"
	case g.driver != "":
		health, reason = v1.GpuHealth_QUARANTINED, g.driver
	default:
		return gpu
	}
	out := proto.Clone(gpu).(*v1.Gpu)
	out.Health, out.HealthReason = health, reason
	return out
}

// Fault returns the problem of the first of the GPUs that failed within a time range; a zero time leaves its end open.
func (g *Monitor) Fault(indices []int32, from, to time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, index := range indices {
		uuid := g.uuid(index)
		q, ok := g.kept[uuid]
		at := time.Unix(0, q.At)
		if ok && q.Cause == causeFault && (from.IsZero() || !at.Before(from)) && (to.IsZero() || !at.After(to)) {
			return g.name(uuid) + ": " + q.Reason
		}
	}
	return ""
}

// UUIDs returns the names of leased GPUs that the driver uses. One that it has never listed has none.
func (g *Monitor) UUIDs(indices []int32) []string { return g.of(indices, (*v1.Gpu).GetUuid) }

// Places returns where leased GPUs are: the UUID of each, and for a slice UUID/GPU INSTANCE/COMPUTE INSTANCE. One that
// the driver has never listed is left out.
func (g *Monitor) Places(indices []int32) []string {
	return g.of(indices, func(gpu *v1.Gpu) string { return cmp.Or(gpu.GetMigInstance(), gpu.GetUuid()) })
}

// of returns a property of each of some GPUs that has it.
func (g *Monitor) of(indices []int32, property func(*v1.Gpu) string) (all []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, index := range indices {
		at := slices.IndexFunc(g.known, func(gpu *v1.Gpu) bool { return gpu.GetIndex() == index })
		if at < 0 {
			continue
		}
		if one := property(g.known[at]); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// MemoryMB returns the memory of a GPU in MiB; 0: the driver has never listed it.
func (g *Monitor) MemoryMB(index int32) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, gpu := range g.known {
		if gpu.GetIndex() == index {
			return int(gpu.GetMemoryMb())
		}
	}
	return 0
}

func (g *Monitor) uuid(index int32) string {
	for _, gpu := range g.known {
		if gpu.GetIndex() == index {
			return gpu.GetUuid()
		}
	}
	return ""
}

// title returns the name of a GPU for messages.
func (g *Monitor) title(uuid string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.name(uuid)
}

func (g *Monitor) name(uuid string) string {
	if at := indexOf(g.known, uuid); at >= 0 {
		return fmt.Sprintf("GPU %d (%s)", g.known[at].GetIndex(), uuid)
	}
	return "GPU " + uuid
}

func indexOf(gpus []*v1.Gpu, uuid string) int {
	return slices.IndexFunc(gpus, func(gpu *v1.Gpu) bool { return gpu.GetUuid() == uuid })
}

// Visible returns the value of CUDA_VISIBLE_DEVICES for leased GPUs: their indices, which many programs parse, or their
// UUIDs if the driver has renumbered them, or if there are slices: CUDA does not number these.
func (g *Monitor) Visible(indices []int32) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	names := make([]string, 0, len(indices))
	named := g.shifted || slices.ContainsFunc(g.known, func(gpu *v1.Gpu) bool { return parent(gpu) != "" })
	for _, index := range indices {
		name := strconv.Itoa(int(index))
		if uuid := g.uuid(index); named && uuid != "" {
			name = uuid
		}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}

// Indices is the reverse of Visible.
func (g *Monitor) Indices(visible string) (indices []int32, ok bool) {
	if visible == "" {
		return nil, true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for name := range strings.SplitSeq(visible, ",") {
		if n, err := strconv.ParseInt(name, 10, 32); err == nil {
			indices = append(indices, int32(n))
		} else if at := indexOf(g.known, name); at >= 0 {
			indices = append(indices, g.known[at].GetIndex())
		} else {
			return nil, false
		}
	}
	return indices, true
}
