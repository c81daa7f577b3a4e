// Package picture models a cluster as it is, will be or could be: the use of its nodes, and what jobs hold of limits.
//
// Contract. [Of] begins with what a view has, and [Empty] as if nothing ran. Add, Remove and Keep change the picture and
// never the view; each takes constant work for each task of the job. [Picture.Undo] takes back all changes since a mark.
//
// Guarantees. A changed node has a new [Node.Use], so two pictures of a node are equal if the addresses are.
package picture

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Shared has the nodes and the queues, which all pictures of a cluster have in common.
type Shared interface {
	Node(id string) (*work.Node, bool)
	// Lineage iterates a queue and those that it is a part of.
	Lineage(queue string) iter.Seq[*work.Queue]
}

// View has what runs in a cluster. *fsm.View implements it.
type View interface {
	Shared
	Use(node string) work.NodeUse
	Usage(tenant string) work.Usage
	// QueueTreeGPUs, HeldOfType and QueueTreeOfType are in thousandths of a GPU, as those of quota.View.
	QueueTreeGPUs(queue string) int
	HeldOfType(tenant, name string) int
	QueueTreeOfType(queue, name string) int
}

// Picture is a cluster as it is or could be. It is not safe for concurrent use.
type Picture struct {
	shared Shared
	// view is nil if the picture began empty. The maps below have the differences from it.
	view    View
	nodes   map[string]*Node
	tenants map[string]work.Usage
	queues  map[string]int
	types   map[typeOf]int
	live    map[ident.Job]int
	changes []change
}

// Node is a node of a picture. Use is the part of it that is in use: it must not be changed.
type Node struct {
	*work.Node
	Use *work.NodeUse
}

// typeOf is a type of GPU that a tenant, or a queue with those below it, holds.
type typeOf struct{ tenant, queue, name string }

// change is a step of a picture: either a node had another use, or the places of a job were counted.
type change struct {
	node *Node
	use  *work.NodeUse

	job    *work.Job
	places []work.TaskPlacement
	by     int
}

// Of returns a picture of a view as it is.
func Of(v View) *Picture {
	p := Empty(v)
	p.view = v
	return p
}

// Empty returns a picture in which nothing runs.
func Empty(s Shared) *Picture {
	return &Picture{
		shared: s, nodes: map[string]*Node{}, tenants: map[string]work.Usage{}, queues: map[string]int{}, types: map[typeOf]int{},
		live: map[ident.Job]int{},
	}
}

// Load returns a node of the picture. It takes constant work.
func (p *Picture) Load(n *work.Node) *Node {
	at, ok := p.nodes[n.ID]
	if !ok {
		at = &Node{Node: n, Use: &work.NodeUse{}}
		if p.view != nil {
			*at.Use = p.view.Use(n.ID)
		}
		p.nodes[n.ID] = at
	}
	return at
}

// at returns a node by name; nil: there is none.
func (p *Picture) at(name string) *Node {
	if at, ok := p.nodes[name]; ok {
		return at
	}
	if n, ok := p.shared.Node(name); ok {
		return p.Load(n)
	}
	return nil
}

// Add gives places to a job.
func (p *Picture) Add(j *work.Job, places []work.TaskPlacement) {
	for i := range places {
		p.edit(places[i].Node, func(use *work.NodeUse) { use.Add(LeaseOf(j, &places[i])) })
	}
	p.count(j, places, 1)
}

// Remove takes away the places of a job.
func (p *Picture) Remove(j *work.Job, places []work.TaskPlacement) {
	for i := range places {
		p.edit(places[i].Node, func(use *work.NodeUse) { use.Remove(LeaseOf(j, &places[i])) })
	}
	p.count(j, places, -1)
}

// Keep keeps places for a job that gets them when those that hold them have left: nobody else gets them, and they count
// as held by it.
func (p *Picture) Keep(j *work.Job, places []work.TaskPlacement) {
	for i := range places {
		p.Claim(places[i].Node, work.Claimed{GPUs: places[i].GPUs, CPUs: j.Shape.CPUDemand(), MemMB: j.Shape.MemMB})
	}
	p.count(j, places, 1)
}

// Claim keeps resources of a node from everybody.
func (p *Picture) Claim(node string, c work.Claimed) {
	p.edit(node, func(use *work.NodeUse) { use.Claim(c) })
}

func (p *Picture) edit(node string, by func(use *work.NodeUse)) {
	n := p.at(node)
	if n == nil {
		return
	}
	p.changes = append(p.changes, change{node: n, use: n.Use})
	use := *n.Use
	by(&use)
	n.Use = &use
}

// Mark is a moment in the history of a picture, for Undo.
func (p *Picture) Mark() int { return len(p.changes) }

// Undo takes back the changes since a mark, the last one first. Earlier marks stay valid.
func (p *Picture) Undo(mark int) {
	for i := len(p.changes) - 1; i >= mark; i-- {
		if c := &p.changes[i]; c.node != nil {
			c.node.Use = c.use
		} else {
			p.tally(c.job, c.places, -c.by)
		}
	}
	p.changes = p.changes[:mark]
}

// Settle forgets the history, so that no mark is valid any more.
func (p *Picture) Settle() {
	clear(p.changes)
	p.changes = p.changes[:0]
}

func (p *Picture) count(j *work.Job, places []work.TaskPlacement, by int) {
	p.tally(j, places, by)
	p.changes = append(p.changes, change{job: j, places: places, by: by})
}

// tally adds what a job holds on its places to the counts of its tenant, queues and array.
func (p *Picture) tally(j *work.Job, places []work.TaskPlacement, by int) {
	milli := 0
	for i := range places {
		milli += LeaseOf(j, &places[i]).GPUMilli()
	}
	u := p.tenants[j.Tenant]
	u.GPUMilli += by * milli
	u.Running += by
	p.tenants[j.Tenant] = u
	held := work.TypesOf(places, j.Shape, p.shared.Node)
	for _, t := range held {
		p.types[typeOf{tenant: j.Tenant, name: t.Type}] += by * t.Milli
	}
	for q := range p.shared.Lineage(j.Queue) {
		p.queues[q.Name] += by * milli
		for _, t := range held {
			p.types[typeOf{queue: q.Name, name: t.Type}] += by * t.Milli
		}
	}
	if array := j.ID.Submitted(); array != j.ID {
		p.live[array] += by
	}
}

// LeaseOf returns a lease with the resources of a task.
func LeaseOf(j *work.Job, t *work.TaskPlacement) *work.Lease {
	return &work.Lease{GPUs: t.GPUs, FractionMilli: j.Shape.FractionMilli, CPUs: j.Shape.CPUDemand(), MemMB: j.Shape.MemMB}
}

// Use returns the part of a node that is in use.
func (p *Picture) Use(node string) work.NodeUse {
	switch n := p.nodes[node]; {
	case n != nil:
		return *n.Use
	case p.view != nil:
		return p.view.Use(node)
	}
	return work.NodeUse{}
}

// Usage returns what a tenant has. Its counts of jobs that are not over are those of the view.
func (p *Picture) Usage(tenant string) work.Usage {
	var u work.Usage
	if p.view != nil {
		u = p.view.Usage(tenant)
	}
	u.GPUMilli += p.tenants[tenant].GPUMilli
	u.Running += p.tenants[tenant].Running
	return u
}

// QueueTreeGPUs returns the thousandths of GPUs that jobs of a queue and of those below it hold.
func (p *Picture) QueueTreeGPUs(queue string) int {
	if p.view != nil {
		return p.view.QueueTreeGPUs(queue) + p.queues[queue]
	}
	return p.queues[queue]
}

// HeldOfType returns the thousandths of GPUs of a type that a tenant holds.
func (p *Picture) HeldOfType(tenant, name string) int {
	held := p.types[typeOf{tenant: tenant, name: name}]
	if p.view != nil {
		held += p.view.HeldOfType(tenant, name)
	}
	return held
}

// QueueTreeOfType returns the thousandths of GPUs of a type that jobs of a queue and of those below it hold.
func (p *Picture) QueueTreeOfType(queue, name string) int {
	held := p.types[typeOf{queue: queue, name: name}]
	if p.view != nil {
		held += p.view.QueueTreeOfType(queue, name)
	}
	return held
}

// Live is the number of elements of an array that have begun to run in this picture; negative: that have left.
func (p *Picture) Live(array ident.Job) int { return p.live[array] }
