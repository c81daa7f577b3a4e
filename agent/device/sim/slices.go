package sim

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/mindcoordinator/mind/agent/device"
)

// profile is the size of a slice: sevenths of the GPU's processors, and memory.
type profile struct {
	name      string
	sevenths  int
	gigabytes int
}

var sliceOf = regexp.MustCompile(`^(.+)-((\d)g\.(\d+)gb)$`)

// cutProfile splits the type of a slice, such as H100-1g.10gb, into the model of its GPU and its profile.
func cutProfile(text string) (model string, p profile, ok bool) {
	m := sliceOf.FindStringSubmatch(text)
	if m == nil {
		return text, p, false
	}
	p.name = m[2]
	p.sevenths, _ = strconv.Atoi(m[3])
	p.gigabytes, _ = strconv.Atoi(m[4])
	if p.sevenths < 1 || p.sevenths > device.MaxSlices || p.gigabytes < 1 {
		return text, p, false
	}
	return m[1], p, true
}

// of turns a GPU into a slice. The slices of one part of a specification fill as many GPUs as they need.
func (p profile) of(d device.Device, node string, first, i int) device.Device {
	each := device.MaxSlices / p.sevenths
	gpu := first + i/each
	d.Slice = &device.Slice{Profile: p.name, Parent: uuid("GPU", node, gpu), GPUInstance: i%each + 1}
	d.UUID = uuid("MIG", node, d.Index)
	d.Model, d.Type = device.SliceModel(d.Model, p.name), device.SliceType(d.Type, p.name)
	d.PCI, d.NVLink, d.MemMB = fmt.Sprintf("00000000:%02X:00.0", gpu+1), nil, p.gigabytes<<10
	return d
}

// uuid names a simulated device.
func uuid(kind, node string, n int) string { return fmt.Sprintf("%s-sim-%s-%d", kind, node, n) }
