package place

import (
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/fsm/reason"
)

// Bar takes nodes, by id, out of the places of a fit, before it is first asked for one.
func (f *Fit) Bar(nodes []string) {
	for _, id := range nodes {
		if i, ok := f.pool.hostOf(id); ok {
			f.spent.add(i)
		}
	}
}

// BarOthers takes all nodes but these out of the places of a fit, before it is first asked for one. What jobs of the fit may
// not use stays out.
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

// hostOf finds the host of a node; hosts are in the order of the ids of their nodes.
func (p *Pool) hostOf(node string) (int, bool) {
	return slices.BinarySearchFunc(p.hosts, node, func(h host, id string) int { return strings.Compare(h.node.ID, id) })
}

// Demand is what a job of the fit asks for.
func (f *Fit) Demand() reason.Reason { return demand(&f.shape) }
