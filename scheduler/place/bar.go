package place

import (
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/fsm/reason"
)

// Bar excludes nodes from the places of a fit. It must be called before the first search.
func (f *Fit) Bar(nodes []string) {
	for _, id := range nodes {
		if i, ok := f.pool.hostOf(id); ok {
			f.spent.add(i)
		}
	}
}

// BarOthers excludes all nodes but the given ones from the places of a fit. It must be called before the first search.
// Nodes that jobs of the fit may not use stay excluded.
func (f *Fit) BarOthers(nodes []string) {
	for i := range f.spent {
		f.spent[i] = ^uint64(0)
	}
	for _, id := range nodes {
		if i, ok := f.pool.hostOf(id); ok && !f.barred(i) {
			f.spent.remove(i)
		}
	}
}

// hostOf returns the host of a node. Hosts are sorted by the ids of their nodes.
func (p *Pool) hostOf(node string) (int, bool) {
	return slices.BinarySearchFunc(p.hosts, node, func(h host, id string) int { return strings.Compare(h.node.ID, id) })
}

// Demand describes the needs of a job of the fit.
func (f *Fit) Demand() reason.Reason { return demand(&f.shape) }
