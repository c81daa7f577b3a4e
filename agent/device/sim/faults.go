package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/device"
)

// FaultsFile is the name of the file in an agent's data directory that makes simulated GPUs fail. It is read again
// whenever it has changed; GPUs that it does not name are healthy. It is an object that maps the index of a GPU, or
// "driver", to a fault:
//
//	{"0": "xid 79", "1": "ecc", "2": "vanish", "3": "stuck-process 4711", "4": "busy 75 40000", "driver": "hang"}
//
// busy is no fault: the sensors then show that the GPU works 75 % of the time and uses 40,000 MiB; without it they show
// an idle GPU. stuck-process names a process that the driver shows on the GPU for as long as the process lives; without
// a number it is process 1. driver may be "hang" or "error".
const FaultsFile = "simulate-gpu-faults.json"

// faults reads the file.
type faults struct {
	path string

	mu   sync.Mutex
	at   time.Time
	size int64
	now  map[string]string
	err  error
}

// WithFaults makes the GPUs fail as the file says.
func (inv *Inventory) WithFaults(path string) *Inventory {
	inv.faults = &faults{path: path}
	return inv
}

// current returns the faults. An invalid file is an error of the driver, so that its author notices.
func (f *faults) current() (map[string]string, error) {
	if f == nil {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil {
		f.now, f.at = nil, time.Time{}
		return nil, nil
	}
	if info.ModTime().Equal(f.at) && info.Size() == f.size && time.Since(f.at) > time.Second {
		return f.now, f.err
	}
	f.at, f.size, f.now, f.err = info.ModTime(), info.Size(), nil, nil
	data, err := os.ReadFile(f.path)
	if err == nil {
		err = json.Unmarshal(data, &f.now)
	}
	if err != nil {
		f.err = fmt.Errorf("read the faults to simulate: %w", err)
		return nil, f.err
	}
	switch f.now["driver"] {
	case "hang":
		f.err = fmt.Errorf("%w (simulated)", device.ErrHung)
	case "error":
		f.err = fmt.Errorf("the GPU driver fails (simulated)")
	}
	return f.now, f.err
}

// afflict returns the device with its fault. It returns false if the device has vanished.
func afflict(d device.Device, fault string) (device.Device, bool) {
	word, rest, _ := strings.Cut(strings.TrimSpace(fault), " ")
	switch word {
	case "vanish":
		return d, false
	case "ecc":
		d.Health, d.Fault, d.HealthReason = device.Quarantined, true, "2 uncorrected memory errors since the last reset"
	case "xid":
		code, _ := strconv.Atoi(rest)
		if xid := device.XidOf(code); xid.Critical {
			d.Health, d.Fault, d.HealthReason = device.Quarantined, true, xid.String()
		}
	}
	return d, true
}

// busy returns the simulated utilization of the GPU, and its memory in bytes.
func busy(fault string) (utilization, memory float64) {
	var percent, mb int
	if _, err := fmt.Sscanf(fault, "busy %d %d", &percent, &mb); err != nil {
		return 0, 0
	}
	return float64(percent) / 100, float64(mb) * (1 << 20)
}

// stuck returns the process that a fault puts on a GPU.
func stuck(fault string) []device.Process {
	word, rest, _ := strings.Cut(strings.TrimSpace(fault), " ")
	if word != "stuck-process" {
		return nil
	}
	pid, err := strconv.Atoi(strings.TrimSpace(rest))
	if err != nil {
		pid = 1
	}
	if unix.Kill(pid, 0) == unix.ESRCH {
		return nil
	}
	return []device.Process{{Pid: pid, MemMB: 1024}}
}
