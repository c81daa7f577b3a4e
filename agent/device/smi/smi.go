// Package smi lists GPUs from the output of nvidia-smi. Agents that were built without cgo use it. Unlike package nvml,
// it does not report Xid errors.
package smi

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/agent/device"
)

// fields are the requested fields, in the order in which nvidia-smi prints them.
const fields = "index,uuid,name,memory.total,pci.bus_id,ecc.errors.uncorrected.volatile.total,utilization.gpu,memory.used,temperature.gpu,power.draw"

// Inventory runs nvidia-smi for every call.
type Inventory struct{ program string }

// New returns an inventory, or an error if nvidia-smi is not installed.
func New() (*Inventory, error) {
	program, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return nil, fmt.Errorf("find nvidia-smi: %w", err)
	}
	return &Inventory{program: program}, nil
}

func (inv *Inventory) run(ctx context.Context, args ...string) ([]byte, error) {
	// The end of the context kills nvidia-smi: a hanging driver hangs nvidia-smi, not the agent.
	cmd := exec.CommandContext(ctx, inv.program, args...)
	cmd.WaitDelay = 100 * time.Millisecond
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run nvidia-smi %s: %w: %s", strings.Join(args, " "), err, firstLine(stdout.String()+stderr.String()))
	}
	return stdout.Bytes(), nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// List returns the GPUs.
func (inv *Inventory) List(ctx context.Context) ([]device.Device, error) {
	out, err := inv.run(ctx, "--query-gpu="+fields, "--format=csv,noheader,nounits")
	if err != nil {
		return nil, err
	}
	devices, _, err := parseQuery(out)
	if err != nil {
		return nil, err
	}
	// Drivers that are older than MIG do not know the field.
	if modes, err := inv.run(ctx, "--query-gpu=index,mig.mode.current", "--format=csv,noheader"); err == nil {
		quarantineDivided(devices, modes)
	}
	// Without the topology the GPUs can still run jobs that do not ask for a topology.
	if topo, err := inv.run(ctx, "topo", "-m"); err == nil {
		applyTopology(devices, topo)
	}
	return devices, nil
}

// Read reads the sensors.
func (inv *Inventory) Read(ctx context.Context) ([]device.Reading, error) {
	out, err := inv.run(ctx, "--query-gpu="+fields, "--format=csv,noheader,nounits")
	if err != nil {
		return nil, err
	}
	_, readings, err := parseQuery(out)
	return readings, err
}

// Processes returns the processes on a GPU.
func (inv *Inventory) Processes(ctx context.Context, uuid string) ([]device.Process, error) {
	users, err := inv.ProcessesOf(ctx, []string{uuid})
	return users[uuid], err
}

// ProcessesOf returns the processes on the GPUs, in one call: nvidia-smi takes as long for all GPUs as for one.
func (inv *Inventory) ProcessesOf(ctx context.Context, uuids []string) (map[string][]device.Process, error) {
	out, err := inv.run(ctx, "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits")
	if err != nil {
		return nil, err
	}
	users, err := parseProcesses(out)
	if err != nil {
		return nil, err
	}
	for uuid := range users {
		if !slices.Contains(uuids, uuid) {
			delete(users, uuid)
		}
	}
	return users, nil
}

// Close does nothing.
func (inv *Inventory) Close() error { return nil }

func parseQuery(out []byte) ([]device.Device, []device.Reading, error) {
	var devices []device.Device
	var readings []device.Reading
	for line := range strings.Lines(string(out)) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		f := strings.Split(line, ",")
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		if len(f) != strings.Count(fields, ",")+1 {
			return nil, nil, fmt.Errorf("nvidia-smi printed %q: want the fields %s", strings.TrimSpace(line), fields)
		}
		index, err := strconv.Atoi(f[0])
		if err != nil {
			return nil, nil, fmt.Errorf("nvidia-smi printed %q: the first field is no index", strings.TrimSpace(line))
		}
		memory, err := strconv.Atoi(f[3])
		if err != nil {
			// A GPU that fell off the bus is still listed, with errors for values.
			memory = 0
		}
		d := device.Device{Index: index, UUID: f[1], Model: f[2], Type: device.ShortType(f[2]), MemMB: memory, PCI: f[4], NUMA: -1}
		switch ecc := number(f[5]); {
		case err != nil:
			d.Health, d.HealthReason = device.Quarantined, "nvidia-smi cannot read its memory: "+f[3]
			// nvidia-smi prints this for a lost GPU; "[N/A]" and the like may be temporary.
			d.Fault = strings.Contains(strings.ToLower(f[3]), "lost") || strings.Contains(strings.ToLower(f[3]), "unknown error")
		case ecc > 0:
			d.Health, d.Fault, d.HealthReason = device.Quarantined, true, fmt.Sprintf("%.0f uncorrected memory errors since the last reset", ecc)
		}
		devices = append(devices, d)
		reading := device.Reading{UUID: f[1], Utilization: number(f[6]), MemoryUsed: number(f[7]), Celsius: number(f[8]), Watts: number(f[9]), XidErrors: -1}
		if reading.Utilization >= 0 {
			reading.Utilization /= 100
		}
		if reading.MemoryUsed >= 0 {
			reading.MemoryUsed *= 1 << 20
		}
		readings = append(readings, reading)
	}
	slices.SortFunc(devices, func(a, b device.Device) int { return a.Index - b.Index })
	return devices, readings, nil
}

// number parses a number. It returns -1 for "[N/A]" and the like.
func number(field string) float64 {
	n, err := strconv.ParseFloat(field, 64)
	if err != nil {
		return -1
	}
	return n
}

func parseProcesses(out []byte) (map[string][]device.Process, error) {
	users := make(map[string][]device.Process)
	for line := range strings.Lines(string(out)) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		uuid, rest, _ := strings.Cut(line, ",")
		pid, memory, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(strings.TrimSpace(pid))
		if err != nil {
			return nil, fmt.Errorf("nvidia-smi printed %q: want a UUID and a pid", strings.TrimSpace(line))
		}
		uuid = strings.TrimSpace(uuid)
		users[uuid] = append(users[uuid], device.Process{Pid: n, MemMB: int(max(0, number(strings.TrimSpace(memory))))})
	}
	return users, nil
}

// quarantineDivided quarantines the GPUs that are divided (MIG): their slices are listed by the driver's library alone.
func quarantineDivided(devices []device.Device, out []byte) {
	for line := range strings.Lines(string(out)) {
		index, mode, _ := strings.Cut(line, ",")
		n, err := strconv.Atoi(strings.TrimSpace(index))
		at := slices.IndexFunc(devices, func(d device.Device) bool { return d.Index == n })
		if err == nil && at >= 0 && strings.TrimSpace(mode) == "Enabled" && devices[at].Health == device.Healthy {
			devices[at].Health, devices[at].HealthReason = device.Quarantined, "MIG is on, and nvidia-smi does not tell enough of its instances: the agent needs the driver's library, libnvidia-ml.so.1, and a build with cgo"
		}
	}
}

// applyTopology reads the matrix of "nvidia-smi topo -m": a row for each GPU,
// with NV4 and the like where two are linked, and columns for NUMA affinity.
func applyTopology(devices []device.Device, out []byte) {
	var header []string
	for line := range strings.Lines(string(out)) {
		line = stripStyle(strings.TrimRight(line, "\r\n"))
		cells := strings.Split(line, "\t")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if header == nil {
			if slices.Contains(cells, "GPU0") {
				header = cells
			}
			continue
		}
		row, ok := gpuIndex(cells[0])
		at := slices.IndexFunc(devices, func(d device.Device) bool { return d.Index == row })
		if !ok || at < 0 {
			continue
		}
		for i, cell := range cells[1:] {
			if i+1 >= len(header) {
				break
			}
			column := header[i+1]
			if peer, ok := gpuIndex(column); ok && strings.HasPrefix(cell, "NV") {
				devices[at].NVLink = append(devices[at].NVLink, peer)
			}
			if column == "NUMA Affinity" {
				if node, err := strconv.Atoi(cell); err == nil {
					devices[at].NUMA = node
				}
			}
		}
	}
}

func gpuIndex(cell string) (int, bool) {
	digits, ok := strings.CutPrefix(cell, "GPU")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

// stripStyle removes the escapes with which nvidia-smi underlines the header.
func stripStyle(line string) string {
	for {
		start := strings.Index(line, "\x1b[")
		if start < 0 {
			return line
		}
		end := strings.IndexByte(line[start:], 'm')
		if end < 0 {
			return line
		}
		line = line[:start] + line[start+end+1:]
	}
}
