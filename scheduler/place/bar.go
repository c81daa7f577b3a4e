package place

import (
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/fsm/reason"
)

// Hosts is a set of nodes of one pool.
type Hosts struct{ set bitset }

// HostsOf returns an empty set. It may be used as long as the pool has the same nodes.
func (p *Pool) HostsOf() Hosts { return Hosts{newBitset(len(p.hosts))} }

// Add adds nodes to a set of this pool. Nodes that are not ready are left out.
func (p *Pool) Add(to Hosts, nodes []string) {
	for _, id := range nodes {
		if i, ok := p.hostOf(id); ok {
			to.set.add(i)
		}
	}
}

// Bar excludes nodes from the places of a fit. It must be called before the first search.
func (f *Fit) Bar(nodes Hosts) {
	for w, word := range nodes.set {
		f.spent[w] |= word
	}
}

// BarOthers excludes all nodes but the given ones from the places of a fit. It must be called before the first search.
// Nodes that are excluded already stay so.
func (f *Fit) BarOthers(nodes Hosts) {
	for w, word := range nodes.set {
		f.spent[w] |= ^word
	}
}

// hostOf returns the host of a node, and false if the node is not ready. Hosts are sorted by the ids of their nodes.
func (p *Pool) hostOf(node string) (int, bool) {
	return slices.BinarySearchFunc(p.hosts, node, func(h host, id string) int { return strings.Compare(h.node.ID, id) })
}

// Demand describes the needs of a job of the fit.
func (f *Fit) Demand() reason.Reason { return demand(&f.shape) }
