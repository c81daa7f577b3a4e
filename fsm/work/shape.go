package work

import (
	"cmp"
	"strings"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/domains"
)

// Class is the class of a job whose tenant has no quota.
func (j *Job) Class() ClassKey {
	key := ClassKey{Queue: j.Queue, Shape: j.Shape, Term: j.Term}
	if j.MaxParallel != 0 {
		key.Array = j.ID.Submitted()
	}
	if len(j.Awaits) > 0 || j.avoidsAny() {
		key.Own = j.ID
	}
	return key
}

// Topology says how the GPUs of a task must hang together.
const (
	TopologyAny        uint8 = 0
	TopologyNVLink     uint8 = 1
	TopologySingleNode uint8 = 2
)

// Shape is the resources that a job needs, normalised so that jobs which need the same compare equal.
type Shape struct {
	// Nodes is the size of the gang, at least 1. All else is per node.
	Nodes uint16 `cbor:"1,keyasint,omitempty"`
	GPUs  uint16 `cbor:"2,keyasint,omitempty"`
	// GPUType is a short type or a model name, or several of them, sorted and joined with "|"; empty: any.
	GPUType string `cbor:"3,keyasint,omitempty"`
	// FractionMilli is a share of one GPU, 1-999, instead of GPUs.
	FractionMilli uint16 `cbor:"4,keyasint,omitempty"`
	// GPUMemMB is the memory of each GPU, at least.
	GPUMemMB uint32 `cbor:"5,keyasint,omitempty"`
	CPUs     uint32 `cbor:"6,keyasint,omitempty"`
	MemMB    uint32 `cbor:"7,keyasint,omitempty"`
	Topology uint8  `cbor:"8,keyasint,omitempty"`
	// Selector is "k=v,k=v" with sorted keys: labels that the node must have.
	Selector string `cbor:"9,keyasint,omitempty"`
	// Between is the demand of a gang on the domains of Level, a label of nodes.
	Between domains.Between `cbor:"16,keyasint,omitempty"`
	Level   string          `cbor:"17,keyasint,omitempty"`
	// Segment is how many consecutive ranks have to be in the same domain; 0: all. Only with domains.Same.
	Segment uint16 `cbor:"18,keyasint,omitempty"`
	// Exclude are the nodes that the job does not use, as domains.CanonicalExclude has them.
	Exclude string `cbor:"19,keyasint,omitempty"`
	// Loose: a task goes to the node where the most is free, not where it costs others the least.
	Loose bool `cbor:"20,keyasint,omitempty"`
}

// PlacesMore says whether the shape limits places by more than what a node has.
func (s Shape) PlacesMore() bool {
	return s.Between != domains.Anywhere || s.Level != "" || s.Segment != 0 || s.Exclude != "" || s.Loose
}

// OneTask is the shape of one task on any node.
func (s Shape) OneTask() Shape {
	s.Nodes, s.Topology, s.Selector = 1, TopologyAny, ""
	return s.anywhere()
}

// anywhere is the shape without what PlacesMore is about.
func (s Shape) anywhere() Shape {
	s.Between, s.Level, s.Segment, s.Exclude, s.Loose = domains.Anywhere, "", 0, "", false
	return s
}

// ClassKey groups the waiting jobs that are the same to the scheduler but for priority and age.
type ClassKey struct {
	Queue string `cbor:"1,keyasint,omitempty"`
	Shape Shape  `cbor:"2,keyasint,omitempty"`
	// Own is set when the job is a class of its own, because what it did before limits where it may go.
	Own ident.Job `cbor:"3,keyasint,omitempty"`
	// Tenant is set when the tenant has a quota: its jobs may be held back by what holds for nobody else.
	Tenant string `cbor:"4,keyasint,omitempty"`
	// Array is set when the elements of an array have a bound of their own.
	Array ident.Job `cbor:"5,keyasint,omitempty"`
	// Term is when an attempt of its jobs is over.
	Term Term `cbor:"6,keyasint,omitempty"`
}

// LaneKey names the waiting jobs of a class that one user has: between lanes, fair share decides.
type LaneKey struct {
	Class        ClassKey
	Tenant, User string
}

// Lane is a lane as long as jobs wait in it: its number belongs to no other one, before or after.
type Lane struct {
	Key    LaneKey
	Number uint32
}

// CPUDemand is the CPUs that a task of this shape counts on its node: a job without GPUs counts one at least.
func (s Shape) CPUDemand() uint32 {
	if s.CPUs == 0 && s.GPUs == 0 && s.FractionMilli == 0 {
		return 1
	}
	return s.CPUs
}

// GPUMilli is the sum over all tasks of this shape, in thousandths of a GPU.
func (s Shape) GPUMilli() int {
	return max(1, int(s.Nodes)) * (1000*int(s.GPUs) + int(s.FractionMilli))
}

// Amount is the sum over all tasks of this shape.
func (s Shape) Amount() accounts.Amount {
	nodes := max(1, uint64(s.Nodes))
	return accounts.Amount{
		GPUMilli: uint64(s.GPUMilli()), CPUs: nodes * uint64(s.CPUDemand()), Mem: nodes * accounts.Mem(uint64(s.MemMB)),
	}
}

// NeedsGPU says whether a task of this shape touches any GPU.
func (s Shape) NeedsGPU() bool { return s.GPUs > 0 || s.FractionMilli > 0 }

// ClassLess orders classes: by queue, then shape.
func ClassLess(a, b ClassKey) bool {
	if c := strings.Compare(a.Queue, b.Queue); c != 0 {
		return c < 0
	}
	x, y := &a.Shape, &b.Shape
	if c := strings.Compare(x.GPUType, y.GPUType); c != 0 {
		return c < 0
	}
	if c := strings.Compare(x.Selector, y.Selector); c != 0 {
		return c < 0
	}
	p := [...]uint64{
		uint64(x.Nodes)<<48 | uint64(x.GPUs)<<32 | uint64(x.FractionMilli)<<16 | uint64(x.Topology),
		uint64(x.GPUMemMB)<<32 | uint64(x.CPUs), uint64(x.MemMB),
	}
	q := [...]uint64{
		uint64(y.Nodes)<<48 | uint64(y.GPUs)<<32 | uint64(y.FractionMilli)<<16 | uint64(y.Topology),
		uint64(y.GPUMemMB)<<32 | uint64(y.CPUs), uint64(y.MemMB),
	}
	for i := range p {
		if p[i] != q[i] {
			return p[i] < q[i]
		}
	}
	if x.PlacesMore() || y.PlacesMore() {
		if c := comparePlaces(x, y); c != 0 {
			return c < 0
		}
	}
	if a.Own != b.Own {
		return a.Own < b.Own
	}
	if a.Tenant != b.Tenant {
		return a.Tenant < b.Tenant
	}
	if a.Array != b.Array {
		return a.Array < b.Array
	}
	return a.Term < b.Term
}

// comparePlaces orders shapes by what PlacesMore is about.
func comparePlaces(x, y *Shape) int {
	loose := func(s *Shape) int {
		if s.Loose {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(x.Between, y.Between), strings.Compare(x.Level, y.Level), cmp.Compare(x.Segment, y.Segment),
		strings.Compare(x.Exclude, y.Exclude), cmp.Compare(loose(x), loose(y)),
	)
}
