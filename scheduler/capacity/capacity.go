// Package capacity says whether a shape could ever run on the nodes of a cluster.
package capacity

import (
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/scheduler/hardware"
)

// Capacity is the capacity of the nodes if they were empty and healthy. A shape that has no room in it can never run.
// Every registered node counts, whatever its state, and every GPU, whatever its health, because both may be back
// tomorrow.
//
// Put and Remove keep it up to date. It caches its answers until the capacity of a node changes, so that a second
// question about a shape is a map lookup. It is not safe for concurrent use.
type Capacity struct {
	nodes map[string]countedNode
	specs map[string]*spec
	known map[work.Shape]Room
	// levels are the levels of domains in the list listed.
	levels []domains.Level
	listed string
}

// maxKnown bounds the cached answers.
const maxKnown = 4096

// spec is the set of machines with the same GPUs.
type spec struct {
	gpus     []work.GPU
	machines map[machineKey]*machines
}

// machineKey distinguishes machines of a spec. Links and labels are encoded, so that keys can be compared.
type machineKey struct {
	cpus, mem     uint32
	links, labels string
}

// machines counts the machines that are equal for every shape.
type machines struct {
	machineKey
	count  int
	labels map[string]string
	wire   *hardware.Wiring
}

// countedNode is a node with the keys under which it is counted.
type countedNode struct {
	*work.Node
	spec string
	key  machineKey
}

// Need is one of the needs of a shape.
type Need uint8

// The needs, in the order in which they are checked.
const (
	NeedNothing Need = iota
	NeedLabels
	NeedGPUType
	NeedGPUMemory
	NeedOneSlice
	NeedGPUs
	NeedNVLink
	NeedCPUs
	NeedMemory
	NeedNodes
	NeedLevel
	NeedDomain
	NeedSegments
)

// Room says whether a shape could ever be placed.
type Room struct {
	// Lacks is the first need that no node meets, among the nodes that meet all needs before it; NeedNothing: there is
	// room.
	Lacks Need
	// Most is the largest amount of it among the nodes that meet the needs before it: GPUs, CPUs or MiB of memory on
	// one node, MiB of memory on one GPU, nodes with equal GPUs of which each could hold a task, such nodes in one
	// domain, or segments that each fit into one domain.
	Most int
	// Where is the domain in which Most was found.
	Where string
}

// New returns the capacity of a cluster without nodes.
func New() *Capacity {
	return &Capacity{nodes: map[string]countedNode{}, specs: map[string]*spec{}, known: map[work.Shape]Room{}}
}

// Nodes returns the number of counted nodes.
func (c *Capacity) Nodes() int { return len(c.nodes) }

// Put adds a node, or replaces its former row.
func (c *Capacity) Put(n *work.Node) {
	old, known := c.nodes[n.ID]
	if known && old.Node == n {
		return
	}
	if known && sameMachine(old.Node, n) {
		old.Node = n
		c.nodes[n.ID] = old
		return
	}
	c.Remove(n.ID)
	at := countedNode{n, hardware.Spec(n.GPUs), machineKey{n.CPUs, n.MemMB, linksKey(n.GPUs), labelsKey(n.Labels)}}
	s := c.specs[at.spec]
	if s == nil {
		s = &spec{gpus: n.GPUs, machines: map[machineKey]*machines{}}
		c.specs[at.spec] = s
	}
	m := s.machines[at.key]
	if m == nil {
		m = &machines{machineKey: at.key, labels: n.Labels, wire: hardware.Wire(n.GPUs)}
		s.machines[at.key] = m
	}
	m.count++
	c.nodes[n.ID] = at
	clear(c.known)
}

// Remove removes a node.
func (c *Capacity) Remove(id string) {
	at, known := c.nodes[id]
	if !known {
		return
	}
	s := c.specs[at.spec]
	if m := s.machines[at.key]; m.count > 1 {
		m.count--
	} else if delete(s.machines, at.key); len(s.machines) == 0 {
		delete(c.specs, at.spec)
	}
	delete(c.nodes, id)
	clear(c.known)
}

// RoomFor reports whether all tasks of a shape could be placed at once on empty nodes.
func (c *Capacity) RoomFor(s work.Shape) Room {
	r, ok := c.known[s]
	if ok {
		return r
	}
	r = c.survey(&s)
	if len(c.known) >= maxKnown {
		clear(c.known)
	}
	c.known[s] = r
	return r
}

func (c *Capacity) survey(s *work.Shape) Room {
	all, ables, first := 0, map[string]int{}, Room{Lacks: NeedLabels}
	out := c.excluded(s.Exclude)
	inDomains := newByDomain(s)
	for name, spec := range c.specs { // order-free: sums and maxima, and byDomain orders what it finds
		able, gpus, equal := 0, spec.suit(s), name
		if hardware.Gang(s) {
			equal = hardware.Equal(spec.gpus, s)
		}
		for _, m := range spec.machines {
			lacks := m.lacks(s, gpus)
			switch {
			case lacks.Lacks == NeedNothing:
				n := m.count - out[machineAt{name, m.machineKey}]
				able += n
				inDomains.add(equal, m.labels[s.Level], n)
			case lacks.Lacks > first.Lacks:
				first = lacks
			case lacks.Lacks == first.Lacks:
				first.Most = max(first.Most, lacks.Most)
			}
		}
		all, ables[equal] = all+able, ables[equal]+able
	}
	largest := 0
	for _, n := range ables { // order-free: a maximum
		largest = max(largest, n)
	}
	if s.Nodes <= 1 || s.GPUs == 0 {
		largest = all // The tasks of other jobs need not run on equal nodes.
	}
	switch {
	case largest >= max(1, int(s.Nodes)):
		return inDomains.room()
	case all > 0 || len(out) > 0 && first.Lacks == NeedLabels:
		return Room{Lacks: NeedNodes, Most: largest}
	}
	return first
}

// Largest returns the largest number of GPUs that a job could have, and its number of nodes, if it needs on each node
// the CPUs, the memory and the labels of the shape.
func (c *Capacity) Largest(s work.Shape) (gpus, nodes int) {
	s.GPUs, s.FractionMilli, s.Topology = 1, 0, work.TopologyAny
	able := map[string]*[work.MaxGPUs + 1]int{} // by equal GPUs: how many nodes have so many of them, or more
	for _, spec := range c.specs {              // order-free: sums
		each, equal := spec.suit(&s), hardware.Equal(spec.gpus, &s)
		for _, m := range spec.machines {
			if m.lacks(&s, each).Lacks != NeedNothing {
				continue
			}
			if able[equal] == nil {
				able[equal] = new([work.MaxGPUs + 1]int)
			}
			for n := range bits.OnesCount64(each.set) {
				able[equal][n+1] += m.count
			}
		}
	}
	for _, have := range able { // order-free: a maximum
		for each, n := range have {
			if all := each * n; all > gpus || all == gpus && n < nodes {
				gpus, nodes = all, n
			}
		}
	}
	return gpus, nodes
}

// GPUTypes returns the types of GPU that the nodes have.
func (c *Capacity) GPUTypes() []string {
	var types []string
	for _, spec := range c.specs {
		for i := range spec.gpus {
			types = append(types, spec.gpus[i].Type)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// suited has the GPUs of a spec that a shape could use, or the reason why it could use none.
type suited struct {
	set   uint64
	lacks Room
}

func (sp *spec) suit(s *work.Shape) suited {
	out := suited{lacks: Room{Lacks: NeedGPUType}}
	for i := range sp.gpus {
		g := &sp.gpus[i]
		if work.GPUMatches(g, s) {
			out.set |= 1 << g.Index
		} else if g.MIG != "" && (s.GPUs > 1 || s.FractionMilli > 0) && work.GPUMatches(g, &work.Shape{GPUType: s.GPUType, GPUs: 1}) {
			out.lacks = Room{Lacks: NeedOneSlice}
		} else if typed := (work.Shape{GPUType: s.GPUType}); work.GPUMatches(g, &typed) {
			out.lacks = Room{Lacks: NeedGPUMemory, Most: max(out.lacks.Most, int(g.MemMB))}
		}
	}
	return out
}

// lacks returns the first need of a shape that these machines do not meet.
func (m *machines) lacks(s *work.Shape, gpus suited) Room {
	if !work.MatchesSelector(m.labels, s.Selector) {
		return Room{Lacks: NeedLabels}
	}
	if s.NeedsGPU() {
		want, have := max(1, int(s.GPUs)), bits.OnesCount64(gpus.set)
		if have == 0 {
			return gpus.lacks
		}
		if have < want {
			return Room{Lacks: NeedGPUs, Most: have}
		}
		if s.Topology == work.TopologyNVLink {
			if _, linked := m.wire.Pick(gpus.set, want, true); !linked {
				return Room{Lacks: NeedNVLink}
			}
		}
	}
	switch {
	case m.cpus < s.CPUDemand():
		return Room{Lacks: NeedCPUs, Most: int(m.cpus)}
	case m.mem < s.MemMB:
		return Room{Lacks: NeedMemory, Most: int(m.mem)}
	}
	return Room{}
}

// sameMachine reports whether two rows of a node have the same capacity.
func sameMachine(a, b *work.Node) bool {
	return a.CPUs == b.CPUs && a.MemMB == b.MemMB && maps.Equal(a.Labels, b.Labels) &&
		slices.EqualFunc(a.GPUs, b.GPUs, func(x, y work.GPU) bool {
			return x.Index == y.Index && x.MemMB == y.MemMB && x.NVLink == y.NVLink && x.NUMA == y.NUMA && x.Type == y.Type && x.Model == y.Model
		})
}

func linksKey(gpus []work.GPU) string {
	var b []byte
	for i := range gpus {
		b = append(binary.BigEndian.AppendUint64(b, gpus[i].NVLink), byte(gpus[i].NUMA))
	}
	return string(b)
}

func labelsKey(labels map[string]string) string {
	var b []byte
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		b = hardware.AppendText(hardware.AppendText(b, k), labels[k])
	}
	return string(b)
}
