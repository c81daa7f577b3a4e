package admission

import (
	"sync"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/scheduler/capacity"
)

// Capacity is the capacity of the nodes of the newest view. Submits use it, so it reads again only the nodes that have
// changed since the last use.
type Capacity struct {
	view func() *fsm.View

	// noting guards the changes since the last use. It is held only briefly, because the applying goroutine takes it.
	noting sync.Mutex
	stale  map[string]bool
	anew   bool

	asking sync.Mutex
	sum    *capacity.Capacity
}

// NewCapacity counts the nodes of the newest view.
func NewCapacity(view func() *fsm.View) *Capacity { return &Capacity{view: view} }

// maxStale limits the recorded changes: beyond it, the next submit counts all nodes again.
const maxStale = 4096

// Changed is called with nodes after their view was published.
func (c *Capacity) Changed(nodes []string) {
	c.noting.Lock()
	defer c.noting.Unlock()
	if c.anew = c.anew || len(c.stale)+len(nodes) > maxStale; c.anew {
		c.stale = nil
		return
	}
	if c.stale == nil {
		c.stale = map[string]bool{}
	}
	for _, id := range nodes {
		c.stale[id] = true
	}
}

// Replaced is called when the whole state was replaced.
func (c *Capacity) Replaced() {
	c.noting.Lock()
	defer c.noting.Unlock()
	c.stale, c.anew = nil, true
}

// with calls ask with the capacity of the nodes.
func (c *Capacity) with(ask func(*capacity.Capacity)) {
	c.asking.Lock()
	defer c.asking.Unlock()
	c.noting.Lock()
	stale, anew := c.stale, c.anew || c.sum == nil
	c.stale, c.anew = nil, false
	c.noting.Unlock()

	// The view is taken after the changes: later changes are recorded for the next use.
	v := c.view()
	if anew {
		c.sum = capacity.New()
		for n := range v.Nodes() {
			c.sum.Put(n)
		}
	}
	for id := range stale {
		if n, ok := v.Node(id); ok {
			c.sum.Put(n)
		} else {
			c.sum.Remove(id)
		}
	}
	policy := v.Policy()
	c.sum.SetLevels(policy.Levels)
	ask(c.sum)
}

// Nodes implements Inventory.
func (c *Capacity) Nodes() (n int) {
	c.with(func(sum *capacity.Capacity) { n = sum.Nodes() })
	return n
}

// RoomFor implements Inventory.
func (c *Capacity) RoomFor(shape work.Shape) (r capacity.Room) {
	c.with(func(sum *capacity.Capacity) { r = sum.RoomFor(shape) })
	return r
}

// GPUTypes implements Inventory.
func (c *Capacity) GPUTypes() (types []string) {
	c.with(func(sum *capacity.Capacity) { types = sum.GPUTypes() })
	return types
}

// Largest implements Inventory.
func (c *Capacity) Largest(shape work.Shape) (gpus, nodes int) {
	c.with(func(sum *capacity.Capacity) { gpus, nodes = sum.Largest(shape) })
	return gpus, nodes
}

// Inventory is the part of the cluster that validation needs: the capacity of its nodes.
type Inventory interface {
	Nodes() int
	RoomFor(shape work.Shape) capacity.Room
	Largest(shape work.Shape) (gpus, nodes int)
	GPUTypes() []string
	Levels() (all []domains.Level, innermost domains.Level, found bool)
}

// Levels returns the levels of domains, innermost first, and the innermost whose label some node has.
func (c *Capacity) Levels() (all []domains.Level, innermost domains.Level, found bool) {
	c.with(func(sum *capacity.Capacity) { all, innermost, found = sum.Levels() })
	return all, innermost, found
}
