package hardware

import (
	"encoding/binary"
	"slices"

	"github.com/mindcoordinator/mind/fsm/work"
)

// Equal returns the same text for nodes with GPUs that the tasks of a gang may use together, because the slowest rank determines
// the speed of all: of those that the shape may use, the types, models and sizes are the same. How many each node has, at which
// indices, and its other GPUs make no difference.
func Equal(gpus []work.GPU, s *work.Shape) string {
	var buf [4]string
	kinds := buf[:0]
	var last *work.GPU
	for i := range gpus {
		g := &gpus[i]
		if last != nil && g.Type == last.Type && g.Model == last.Model && g.MemMB == last.MemMB && g.MIG == last.MIG || !work.GPUMatches(g, s) {
			continue
		}
		last = g
		b := binary.BigEndian.AppendUint32(nil, g.MemMB)
		if kind := string(AppendText(AppendText(b, g.Type), g.Model)); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 1 {
		return kinds[0]
	}
	slices.Sort(kinds)
	var all []byte
	for _, kind := range kinds {
		all = AppendText(all, kind)
	}
	return string(all)
}

// Gang reports whether the tasks of a shape must have equal GPUs.
func Gang(s *work.Shape) bool { return s.Nodes > 1 && s.NeedsGPU() }
