package work

import (
	"math/bits"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/domains"
)

// GPUMatches says whether a GPU is of a type that the shape asks for: one of its types or models by name, and its memory. A slice
// is for shapes that ask for its type, and for one: a process can use no more than one of them.
func GPUMatches(g *GPU, s *Shape) bool {
	if s.GPUMemMB > g.MemMB {
		return false
	}
	if s.GPUType == "" {
		return g.MIG == ""
	}
	if g.MIG != "" && (s.GPUs > 1 || s.FractionMilli > 0) {
		return false
	}
	for one := range strings.SplitSeq(s.GPUType, GPUTypeOr) {
		if strings.EqualFold(one, g.Type) || strings.EqualFold(one, g.Model) {
			return true
		}
	}
	return false
}

// Eligible is the set of GPUs of a node that a task of this shape could use now: healthy, what the shape asks for, and
// free (or with room for the fraction).
func Eligible(n *Node, u *NodeUse, s Shape) uint64 {
	var mask uint64
	for i := range n.GPUs {
		g := &n.GPUs[i]
		bit := uint64(1) << (g.Index & (MaxGPUs - 1))
		if g.Health != v1.GpuHealth_HEALTHY || (u.Exclusive|u.Claimed.GPUs)&bit != 0 || !GPUMatches(g, &s) {
			continue
		}
		if s.FractionMilli == 0 && u.Shared&bit != 0 {
			continue
		}
		if s.FractionMilli > 0 && u.Milli[g.Index&(MaxGPUs-1)]+s.FractionMilli > 1000 {
			continue
		}
		mask |= bit
	}
	return mask
}

// CheckTask says why a task of this shape cannot be on these GPUs of the node; nil: it can. The FSM verifies every
// placement with it; the scheduler may ask beforehand.
func CheckTask(n *Node, u *NodeUse, s Shape, gpus uint64) *kernel.Refusal {
	if n.State != v1.NodeState_READY {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NodeIs, n.ID, n.State)
	}
	want := int(s.GPUs)
	if s.FractionMilli > 0 {
		want = 1
	}
	if bits.OnesCount64(gpus) != want {
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.WrongGPUCount, bits.OnesCount64(gpus), n.ID, want)
	}
	if gpus != 0 {
		if missing := gpus &^ Eligible(n, u, s); missing != 0 {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.GPUNotFree, bits.TrailingZeros64(missing), n.ID)
		}
		if s.Topology == TopologyNVLink && !linked(n, gpus) {
			return kernel.Refuse(kernel.CodeFailedPrecondition, reason.GPUsNotLinked, n.ID)
		}
	}
	if cpus, free := s.CPUDemand(), u.FreeCPUs(n); cpus > free {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.CPUsNotFree, n.ID, free, n.CPUs, cpus)
	}
	if free := u.FreeMemMB(n); s.MemMB > free {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.MemoryNotFree, n.ID, free, n.MemMB, s.MemMB)
	}
	if !MatchesSelector(n.Labels, s.Selector) {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.LabelMissing, n.ID, s.Selector)
	}
	if domains.Excludes(s.Exclude, n.ID) {
		return kernel.Refuse(kernel.CodeFailedPrecondition, reason.NodeExcluded, n.ID)
	}
	return nil
}

// CheckDomains says why the tasks of a job cannot be on these nodes together, by rank; nil: they can. The FSM verifies
// every placement with it.
func CheckDomains(s *Shape, nodes func(rank int) *Node) *kernel.Refusal {
	if s.Between != domains.Same || s.Nodes <= 1 {
		return nil
	}
	first, split := domains.Split(int(s.Nodes), int(s.Segment), func(rank int) string { return nodes(rank).Labels[s.Level] })
	if !split {
		return nil
	}
	last := int(s.Nodes) - 1
	if s.Segment > 0 {
		last = min(last, first+int(s.Segment)-1)
	}
	return kernel.Refuse(kernel.CodeFailedPrecondition, reason.DomainSplit, first, last, domains.NameOf(s.Level))
}

// CouldHold says whether a task of this shape would fit on the node if nothing else were on it, as the node is today.
func (n *Node) CouldHold(s Shape) bool {
	if n.UnreachableSince != 0 || n.Drain != nil || s.CPUDemand() > n.CPUs || s.MemMB > n.MemMB || !MatchesSelector(n.Labels, s.Selector) ||
		domains.Excludes(s.Exclude, n.ID) {
		return false
	}
	want := int(s.GPUs)
	if s.FractionMilli > 0 {
		want = 1
	}
	return want == 0 || bits.OnesCount64(Eligible(n, &NodeUse{}, s)) >= want
}

// linked says whether each of the GPUs reaches all the others over NVLink.
func linked(n *Node, gpus uint64) bool {
	for i := range n.GPUs {
		g := &n.GPUs[i]
		bit := uint64(1) << (g.Index & (MaxGPUs - 1))
		if gpus&bit != 0 && gpus&^(g.NVLink|bit) != 0 {
			return false
		}
	}
	return true
}

// GPUTypeOr is between the alternatives of Shape.GPUType.
const GPUTypeOr = "|"

// CanonicalGPUType makes the Shape.GPUType of alternatives: sorted, and each once.
func CanonicalGPUType(want string) string {
	if !strings.Contains(want, GPUTypeOr) {
		return want
	}
	var types []string
	for one := range strings.SplitSeq(want, GPUTypeOr) {
		if one = strings.TrimSpace(one); one != "" {
			types = append(types, one)
		}
	}
	slices.Sort(types)
	return strings.Join(slices.Compact(types), GPUTypeOr)
}

// CanonicalSelector makes the Shape.Selector of a node selector: equal for equal selectors.
func CanonicalSelector(want map[string]string) string {
	pairs := make([]string, 0, len(want))
	for k, v := range want { // order-free: sorted below
		pairs = append(pairs, k+"="+v)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// MatchesSelector says whether the labels of a node satisfy a canonical selector.
func MatchesSelector(labels map[string]string, selector string) bool {
	for selector != "" {
		var pair string
		pair, selector, _ = strings.Cut(selector, ",")
		k, want, _ := strings.Cut(pair, "=")
		if have, ok := labels[k]; !ok || have != want {
			return false
		}
	}
	return true
}
