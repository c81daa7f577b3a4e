package place

import (
	"iter"
	"maps"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Changing is a View whose rows never change: a changed row has a new address.
type Changing interface {
	View
	// Uses iterates the resources in use of each node that has had leases, in the order of the nodes.
	Uses() iter.Seq2[string, *work.NodeUse]
}

// Kept is a pool that is kept from pass to pass. Sync reads only the nodes that have changed, and the result equals the
// pool that New would make.
type Kept struct {
	*Pool
	nodes []keptNode
	// uses are the resources in use that the hosts were loaded from, by host.
	uses []*work.NodeUse
}

// keptNode is a node as it was read, and the index of its host; -1 if it is not ready.
type keptNode struct {
	node *work.Node
	host int
}

// Sync updates the pool to a view, for jobs of these shapes. It forgets the placements since the last call: the view
// has those that were applied.
func (k *Kept) Sync(v Changing, shapes iter.Seq[work.Shape], prices func() *Prices) {
	if k.Pool == nil || !slices.Equal(k.keys, selectorKeys(shapes)) || !k.sameNodes(v) {
		k.Pool = New(v, shapes, prices)
		k.remember(v)
		return
	}
	p := k.Pool
	p.learn, p.settled = prices, nil
	clear(p.empty)
	for _, i := range p.taken {
		k.uses[i] = &unknownUse
	}
	p.taken, p.withheld, p.touched = p.taken[:0], p.withheld[:0], p.touched[:0]
	clear(p.reopened)
	at := 0
	for name, use := range v.Uses() {
		for ; at < len(k.nodes) && k.nodes[at].node.ID < name; at++ {
			k.load(k.nodes[at].host, nil)
		}
		if at < len(k.nodes) && k.nodes[at].node.ID == name {
			k.load(k.nodes[at].host, use)
			at++
		}
	}
	for ; at < len(k.nodes); at++ {
		k.load(k.nodes[at].host, nil)
	}
	p.forgetEmpty()
}

// load loads a host with the resources in use (nil: none), unless it has these already.
func (k *Kept) load(i int, use *work.NodeUse) {
	if i < 0 || k.uses[i] == use {
		return
	}
	k.uses[i] = use
	k.touched = append(k.touched, i)
	k.leave(i)
	if use == nil {
		use = &unused
	}
	k.hosts[i].load(*use)
	k.enter(i)
}

// unused is the use of a host without leases.
var unused work.NodeUse

// unknownUse marks a host whose capacity was taken in a pass, so that Sync loads it again.
var unknownUse work.NodeUse

// sameNodes reports whether the nodes of a view would make the same hosts as those of the pool. It stores their new
// rows.
func (k *Kept) sameNodes(v View) bool {
	i := 0
	for node := range v.Nodes() {
		if i == len(k.nodes) {
			return false
		}
		if old := k.nodes[i].node; old != node {
			if old.ID != node.ID || !sameHost(old, node) {
				return false
			}
			k.nodes[i].node = node
			if h := k.nodes[i].host; h >= 0 {
				k.hosts[h].node = node
			}
		}
		i++
	}
	return i == len(k.nodes)
}

// sameHost reports whether two rows of a node make the same host.
func sameHost(a, b *work.Node) bool {
	if (a.State == v1.NodeState_READY) != (b.State == v1.NodeState_READY) {
		return false
	}
	return a.CPUs == b.CPUs && a.MemMB == b.MemMB && maps.Equal(a.Labels, b.Labels) && slices.Equal(a.GPUs, b.GPUs)
}

func (k *Kept) remember(v Changing) {
	k.nodes, k.uses = k.nodes[:0], make([]*work.NodeUse, len(k.hosts))
	next := 0
	for node := range v.Nodes() {
		n := keptNode{node, -1}
		if node.State == v1.NodeState_READY {
			n.host = next
			next++
		}
		k.nodes = append(k.nodes, n)
	}
	at := 0
	for name, use := range v.Uses() {
		for at < len(k.nodes) && k.nodes[at].node.ID < name {
			at++
		}
		if at < len(k.nodes) && k.nodes[at].node.ID == name && k.nodes[at].host >= 0 {
			k.uses[k.nodes[at].host] = use
		}
	}
}

// forgetEmpty rebuilds the logs of the groups, and removes the groups without hosts if they are the majority.
func (p *Pool) forgetEmpty() {
	for _, k := range p.kinds {
		live := 0
		for n := range k.log {
			k.log[n] = k.log[n][:0]
		}
		for _, g := range k.groups {
			if g.count > 0 {
				live++
				k.log[g.number] = append(k.log[g.number], g)
			}
		}
		if len(k.groups) <= 2*live+64 {
			continue
		}
		k.groups = slices.DeleteFunc(k.groups, func(g *group) bool {
			if g.count == 0 {
				delete(p.groups, g.load)
			}
			return g.count == 0
		})
	}
}
