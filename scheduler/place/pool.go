// Package place finds places for tasks: which node and which GPUs each task of a job gets.
//
// Contract. A [Pool] is the free capacity during one pass. A [Fit] finds places in the pool for the jobs of one shape,
// takes their capacity, and returns the reason if nothing fits. The package knows no queues, quotas or priorities: the
// scheduler decides which job is placed next.
//
// Guarantees. No GPU, CPU or memory is given twice. A job that fits is placed: prices choose among the places, and
// never refuse. Equal pools and equal calls give equal places.
package place

import (
	"iter"
	"math/bits"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/hardware"
	"github.com/mindcoordinator/mind/scheduler/worth"
)

// Pool is the free capacity of the cluster during one pass. It only shrinks, except by Withhold.
type Pool struct {
	hosts  []host
	kinds  []*kind
	keys   []string // the labels in the selectors of waiting jobs
	groups map[load]*group
	// prices decide between places. learn makes them before the first placement.
	prices *worth.Prices
	learn  func() *worth.Prices
	// empty caches, by shape, the hosts that could hold a task if they were empty. settled are the hosts that may run
	// replacements; nil before the first use.
	empty   map[work.Shape]bitset
	settled bitset
	// levels and excludes cache properties of the nodes that shapes asked for.
	levels   map[string]*levelMap
	excludes map[string]bitset
	taken    []int // hosts on which capacity was taken or withheld
	// touched are the hosts that Kept.Sync has read again. reopened caches, by shape, those with room for a task.
	touched  []int
	reopened map[work.Shape][]int
	// withheld is the capacity that is kept from jobs now.
	withheld []held
	// scored are the shapes whose scores the groups keep.
	scored  map[work.Shape]*shapeScores
	scratch []byte
	remains []uint16
}

// host is a node that may get tasks.
type host struct {
	node *work.Node
	kind *kind
	wire *hardware.Wiring
	// free are the healthy GPUs without leases. shared are those that are leased in part, and left is the rest of each,
	// in thousandths.
	free, shared uint64
	left         *[work.MaxGPUs]uint16
	cpus, mem    uint32
	group        *group
}

// kind is the set of hosts with the same GPUs and the same values of the labels in use, which are equal for every
// selector.
type kind struct {
	number int
	gpus   []work.GPU
	alike  bool             // all GPUs are of one type and size
	labels []string         // values, in the order of the pool's keys
	has    []bool           // whether the label exists
	spec   int              // number shared by kinds with the same GPUs
	terms  worth.Terms      // the terms of the prices for these GPUs
	wire   *hardware.Wiring // of the last host for which it was made, whose GPUs are in wired
	wired  []work.GPU
	// groups are all groups that have existed. log[n] lists those with n free GPUs, and again each time when they get a
	// first host.
	groups []*group
	log    [][]*group
	// counts[n] is the number of hosts with n free GPUs. most is the greatest n with a host.
	counts []int
	most   int
	// Largest amounts of any host of this kind, in use or not: they bound the tasks that could ever fit.
	maxGPUs         int
	maxCPUs, maxMem uint32
	hosts           int
}

// View is the part of the state that a pool reads: the nodes, and the resources in use on each.
type View interface {
	Nodes() iter.Seq[*work.Node]
	Use(node string) work.NodeUse
}

// New makes a pool of the ready nodes. Later calls of For may select only by labels that one of the given shapes
// selects by. prices is called before the first placement; if it returns nil, places are chosen by best fit.
func New(v View, shapes iter.Seq[work.Shape], prices func() *worth.Prices) *Pool {
	keys := selectorKeys(shapes)
	p := &Pool{hosts: make([]host, 0, 64), keys: keys, groups: map[load]*group{}, learn: prices}
	values, has := make([]string, len(keys)), make([]bool, len(keys))
	var last *kind
	for node := range v.Nodes() {
		if node.State != v1.NodeState_READY {
			continue
		}
		for i, k := range keys {
			values[i], has[i] = node.Labels[k]
		}
		if last == nil || !last.holds(node, values, has) {
			last = p.kindOf(node, values, has)
		}
		p.hosts = append(p.hosts, newHost(node, v.Use(node.ID), last))
	}
	for i := range p.hosts {
		p.enter(i)
	}
	return p
}

func newHost(node *work.Node, use work.NodeUse, k *kind) host {
	h := host{node: node, kind: k}
	h.load(use)
	k.hosts++
	k.maxGPUs = max(k.maxGPUs, len(node.GPUs))
	k.maxCPUs = max(k.maxCPUs, node.CPUs)
	k.maxMem = max(k.maxMem, node.MemMB)
	return h
}

// load computes the free capacity of a host from the resources in use.
func (h *host) load(use work.NodeUse) {
	h.cpus, h.mem = use.FreeCPUs(h.node), use.FreeMemMB(h.node)
	h.free, h.shared = 0, 0
	for i := range h.node.GPUs {
		g := &h.node.GPUs[i]
		bit := uint64(1) << g.Index
		if g.Health != v1.GpuHealth_HEALTHY || (use.Exclusive|use.Claimed.GPUs)&bit != 0 {
			continue
		}
		if use.Shared&bit == 0 {
			h.free |= bit
			continue
		}
		if left := sub(whole, uint32(use.Milli[g.Index])); left > 0 {
			if h.left == nil {
				h.left = new([work.MaxGPUs]uint16)
			}
			h.shared |= bit
			h.left[g.Index] = uint16(left)
		}
	}
}

func sub(a, b uint32) uint32 {
	if b > a {
		return 0
	}
	return a - b
}

func (p *Pool) kindOf(node *work.Node, values []string, has []bool) *kind {
	spec := len(p.kinds)
	for i := len(p.kinds) - 1; i >= 0; i-- {
		if !hardware.Same(p.kinds[i].gpus, node.GPUs) {
			continue
		}
		spec = p.kinds[i].spec
		if p.kinds[i].holds(node, values, has) {
			return p.kinds[i]
		}
	}
	k := &kind{
		number: len(p.kinds), gpus: node.GPUs, alike: alike(node.GPUs), labels: slices.Clone(values), has: slices.Clone(has), spec: spec,
		log: make([][]*group, len(node.GPUs)+1), counts: make([]int, len(node.GPUs)+1),
	}
	p.kinds = append(p.kinds, k)
	return k
}

func (k *kind) holds(node *work.Node, values []string, has []bool) bool {
	for i, v := range values {
		if k.labels[i] != v || k.has[i] != has[i] {
			return false
		}
	}
	return hardware.Same(k.gpus, node.GPUs)
}

// alike reports whether all GPUs suit the same shapes.
func alike(gpus []work.GPU) bool {
	for i := range gpus {
		if g, first := &gpus[i], &gpus[0]; g.MemMB != first.MemMB || g.Type != first.Type || g.Model != first.Model {
			return false
		}
	}
	return true
}

// take removes the capacity of a task of this shape from a host.
func (p *Pool) take(i int, s *work.Shape, gpus uint64) {
	h := &p.hosts[i]
	p.taken = append(p.taken, i)
	p.leave(i)
	h.cpus -= min(h.cpus, s.CPUDemand())
	h.mem -= min(h.mem, s.MemMB)
	if s.FractionMilli == 0 {
		h.free &^= gpus
	} else {
		g := bits.TrailingZeros64(gpus)
		if h.left == nil {
			h.left = new([work.MaxGPUs]uint16)
		}
		if h.free&gpus != 0 {
			h.free &^= gpus
			h.left[g] = 1000
		}
		h.left[g] -= s.FractionMilli
		h.shared &^= gpus
		if h.left[g] > 0 {
			h.shared |= gpus
		}
	}
	p.enter(i)
}

func (h *host) wiring() *hardware.Wiring {
	if h.wire == nil {
		if k := h.kind; k.wire == nil || !hardware.SameLinks(k.wired, h.node.GPUs) {
			k.wire, k.wired = hardware.Wire(h.node.GPUs), h.node.GPUs
		}
		h.wire = h.kind.wire
	}
	return h.wire
}

// selectorKeys returns the labels in the selectors of the shapes.
func selectorKeys(shapes iter.Seq[work.Shape]) []string {
	var keys []string
	seen := map[string]bool{}
	for s := range shapes {
		selector := s.Selector
		if selector == "" || seen[selector] {
			continue
		}
		seen[selector] = true
		for k := range selectorPairs(selector) {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// selectorPairs parses the canonical form "k=v,k=v".
func selectorPairs(selector string) func(yield func(k, v string) bool) {
	return func(yield func(k, v string) bool) {
		for pair := range strings.SplitSeq(selector, ",") {
			if k, v, ok := strings.Cut(pair, "="); ok && !yield(k, v) {
				return
			}
		}
	}
}
