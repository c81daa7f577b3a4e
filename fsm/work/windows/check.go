package windows

import (
	"iter"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// CheckWindows reports what does not hold of the windows: leases lists those on a node, job finds a job.
func (r *Register) CheckWindows(leases func(node string) iter.Seq[*work.Lease], job func(ident.Job) (*work.Job, bool), report kernel.Report) {
	nodes, tenants := 0, 0
	for w := range r.Windows() {
		nodes += len(w.Nodes)
		if w.Tenant != "" {
			tenants++
		}
		switch {
		case w.Name == "" || w.From >= w.Until || len(w.Nodes) == 0 || !strictlySorted(w.Nodes):
			report("I15: the window %q lasts from %d to %d, on %v", w.Name, w.From, w.Until, w.Nodes)
		case (w.Kind == Reservation) != (w.Tenant != "") || (w.Kind == Reservation) != (w.GPUs != 0):
			report("I15: the window %q of kind %d is for the tenant %q, %d GPUs", w.Name, w.Kind, w.Tenant, w.GPUs)
		case len(w.Drained) > 0 && (!w.Begun || w.Kind != Maintenance) || !strictlySorted(w.Drained):
			report("I15: the window %q has drained %v", w.Name, w.Drained)
		case !r.turns.Has(turn{w.Turn(), w.Name}):
			report("the window %q has no turn at %d", w.Name, w.Turn())
		}
		for _, n := range w.Nodes {
			if !r.on.Has(listed{n, w.Name}) {
				report("the window %q is not listed on %s", w.Name, n)
			}
			for other := range r.WindowsOn(n) {
				if other.Name > w.Name && other.Meets(w.From, w.Until) {
					report("I15: node %s is in the windows %q and %q at the same time", n, w.Name, other.Name)
				}
			}
			for l := range leases(n) {
				if j, ok := job(l.Job); ok && l.Token > w.Revision && !w.Admits(j, l.GrantedAt) {
					report("I15: %s was placed on %s at %d, which the window %q keeps from it", j.ID, n, l.GrantedAt, w.Name)
				}
			}
		}
	}
	if r.rows.Len() > Max || r.turns.Len() != r.rows.Len() || r.on.Len() != nodes || r.of.Len() != tenants {
		report("%d windows, %d turns, %d of %d nodes, %d of %d tenants", r.rows.Len(), r.turns.Len(), r.on.Len(), nodes, r.of.Len(), tenants)
	}
}

func strictlySorted(list []string) bool {
	return slices.IsSorted(list) && len(slices.Compact(slices.Clone(list))) == len(list)
}
