// Package hardware knows the GPUs of a node: which of them a shape may use, how they are linked, and which nodes have equal
// ones.
package hardware

import (
	"encoding/binary"

	"github.com/mindcoordinator/mind/fsm/work"
)

// Choose picks want of the free GPUs of a node: those with the best links to each other. With nvlink, each of them must
// reach the others over NVLink. It returns false if there are none.
func Choose(n *work.Node, free uint64, want int, nvlink bool) (gpus uint64, ok bool) {
	return Wire(n.GPUs).Pick(free, want, nvlink)
}

// Suiting returns the GPUs that a shape could use.
func Suiting(gpus []work.GPU, s *work.Shape) uint64 {
	var mask uint64
	for i := range gpus {
		if work.GPUMatches(&gpus[i], s) {
			mask |= 1 << gpus[i].Index
		}
	}
	return mask
}

// Spec returns a text that is the same for equal GPUs, however they are linked, and for no others.
func Spec(gpus []work.GPU) string {
	var b []byte
	for i := range gpus {
		g := &gpus[i]
		b = append(b, g.Index)
		b = binary.BigEndian.AppendUint32(b, g.MemMB)
		b = AppendText(AppendText(b, g.Type), g.Model)
	}
	return string(b)
}

// Same reports whether GPUs have the same Spec.
func Same(x, y []work.GPU) bool {
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		a, b := &x[i], &y[i]
		if a.Index != b.Index || a.MemMB != b.MemMB || a.Type != b.Type || a.Model != b.Model {
			return false
		}
	}
	return true
}

// SameLinks reports whether equal GPUs are linked in the same way.
func SameLinks(x, y []work.GPU) bool {
	for i := range x {
		if x[i].NVLink != y[i].NVLink || x[i].NUMA != y[i].NUMA {
			return false
		}
	}
	return true
}

// AppendText appends the length of a text and the text, so that different lists of texts have different encodings.
func AppendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
