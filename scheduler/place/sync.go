package place

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/changes"
	"github.com/mindcoordinator/mind/scheduler/worth"
)

// Changing is a View whose rows never change: a changed row has a new address.
type Changing interface {
	View
	// Uses iterates the resources in use of each node that has had leases, in the order of the nodes.
	Uses() iter.Seq2[string, *work.NodeUse]
}

// noting is a Changing that lists the nodes that have changed. *fsm.View implements it.
type noting interface {
	Changing
	NodesChanged() changes.Mark[string]
	Node(id string) (*work.Node, bool)
	// UseOf returns what Uses iterates; nil: the node has had no leases.
	UseOf(node string) *work.NodeUse
}

// Kept is a pool that is kept from pass to pass. Sync reads only the nodes that have changed, and the result equals the
// pool that New would make.
type Kept struct {
	*Pool
	// nodes are in the order of their ids.
	nodes []keptNode
	// uses are the resources in use that the hosts were loaded from, by host.
	uses []*work.NodeUse
	// mark is the position after the last change of a node that was read.
	mark changes.Mark[string]
}

// keptNode is a node as it was read, and the index of its host; -1 if it is not ready.
type keptNode struct {
	node *work.Node
	host int
}

// Sync updates the pool to a view, for jobs of these shapes. It forgets the placements since the last call: the view
// has those that were applied.
func (k *Kept) Sync(v Changing, shapes iter.Seq[work.Shape], prices func() *worth.Prices) {
	if k.Pool == nil || !slices.Equal(k.keys, selectorKeys(shapes)) || !k.update(v, prices) {
		k.Pool = New(v, shapes, prices)
		k.remember(v)
	}
	if n, ok := v.(noting); ok {
		k.mark = n.NodesChanged()
	}
}

// update reads the nodes that have changed; all, if the view does not list them. It returns false if the hosts of the
// pool are other ones now.
func (k *Kept) update(v Changing, prices func() *worth.Prices) bool {
	var changed iter.Seq[string]
	n, lists := v.(noting)
	if lists {
		changed, lists = changes.Between(k.mark, n.NodesChanged())
	}
	if lists && !k.sameRows(n, changed) || !lists && !k.sameNodes(v) {
		return false
	}
	p := k.Pool
	p.learn, p.settled = prices, nil
	clear(p.empty)
	clear(p.reopened)
	if len(p.scored) == mostScored {
		p.forgetScores()
	}
	p.withheld, p.touched = p.withheld[:0], p.touched[:0]
	for _, i := range p.taken {
		k.uses[i] = &unknownUse
	}
	if lists {
		for _, i := range p.taken {
			k.load(i, n.UseOf(p.hosts[i].node.ID))
		}
		for id := range changed {
			if i, known := k.indexOf(id); known {
				k.load(k.nodes[i].host, n.UseOf(id))
			}
		}
	} else {
		k.loadAll(v)
	}
	p.taken = p.taken[:0]
	if len(p.touched) > 0 {
		p.forgetEmpty()
	}
	return true
}

// loadAll loads each host whose resources in use are not those that it was loaded from.
func (k *Kept) loadAll(v Changing) {
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
		if !k.sameRow(i, node) {
			return false
		}
		i++
	}
	return i == len(k.nodes)
}

// sameRows is sameNodes for the nodes that may have changed.
func (k *Kept) sameRows(v noting, changed iter.Seq[string]) bool {
	for id := range changed {
		i, known := k.indexOf(id)
		node, exists := v.Node(id)
		if known != exists {
			return false
		}
		if known && !k.sameRow(i, node) {
			return false
		}
	}
	return true
}

// indexOf returns the index of a node.
func (k *Kept) indexOf(id string) (int, bool) {
	return slices.BinarySearchFunc(k.nodes, id, func(n keptNode, id string) int { return cmp.Compare(n.node.ID, id) })
}

// sameRow reports whether the row of a node makes the same host as the one that was read. It stores the new row.
func (k *Kept) sameRow(i int, node *work.Node) bool {
	old := &k.nodes[i]
	if old.node == node {
		return true
	}
	if old.node.ID != node.ID || !sameHost(old.node, node) {
		return false
	}
	old.node = node
	if old.host >= 0 {
		k.hosts[old.host].node = node
	}
	return true
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

// Check compares the pool with the view that it was last synced to, without what was taken since. The error names a node
// of which it has something else. A view that came later is not looked at.
func (k *Kept) Check(v Changing) error {
	if n, ok := v.(noting); k.Pool == nil || ok && k.mark != n.NodesChanged() {
		return nil
	}
	rows := map[string]*work.NodeUse{}
	for name, use := range v.Uses() {
		rows[name] = use
	}
	taken := map[int]bool{}
	for _, i := range k.taken {
		taken[i] = true
	}
	i := 0
	for node := range v.Nodes() {
		switch {
		case i >= len(k.nodes) || k.nodes[i].node != node:
			return fmt.Errorf("node %s: the pool has another row of it", node.ID)
		case node.State != v1.NodeState_READY:
			if k.nodes[i].host >= 0 {
				return fmt.Errorf("node %s is not ready, and in the pool", node.ID)
			}
		case k.nodes[i].host < 0 || k.hosts[k.nodes[i].host].node != node:
			return fmt.Errorf("node %s is ready, and not in the pool", node.ID)
		default:
			h := k.nodes[i].host
			if k.uses[h] != rows[node.ID] {
				return fmt.Errorf("node %s: the pool has another use of it", node.ID)
			}
			fresh := newHost(node, v.Use(node.ID), &kind{})
			if is := &k.hosts[h]; !taken[h] && (is.free != fresh.free || is.shared != fresh.shared || is.cpus != fresh.cpus || is.mem != fresh.mem) {
				return fmt.Errorf("node %s has the free GPUs %b, CPUs %d and memory %d in the pool, instead of %b, %d and %d",
					node.ID, is.free, is.cpus, is.mem, fresh.free, fresh.cpus, fresh.mem)
			}
		}
		i++
	}
	if i != len(k.nodes) {
		return fmt.Errorf("the pool has %d nodes of %d", len(k.nodes), i)
	}
	return nil
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
