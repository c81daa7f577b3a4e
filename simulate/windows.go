package simulate

import (
	"iter"
	"maps"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/picture"
)

// calendar has the maintenances and reservations of a run.
type calendar struct {
	// ahead were not put yet, and known were put and are not over.
	ahead, known []*windows.Window
	// reserving are the tenants that have a reservation at some time: their jobs are classes of their own.
	reserving map[string]bool
}

func newCalendar(on Cluster) calendar {
	k := calendar{reserving: map[string]bool{}}
	for _, w := range on.Windows {
		unbegun := *w
		unbegun.Begun, unbegun.Drained = false, nil
		k.ahead = append(k.ahead, &unbegun)
		if w.Kind == windows.Reservation {
			k.reserving[w.Tenant] = true
		}
	}
	return k
}

// Windows implements scheduler.View.
func (k *calendar) Windows() iter.Seq[*windows.Window] { return slices.Values(k.known) }

// WindowsOn implements preempt.View.
func (k *calendar) WindowsOn(node string) iter.Seq[*windows.Window] {
	return func(yield func(*windows.Window) bool) {
		for _, w := range k.known {
			if w.Has(node) && !yield(w) {
				return
			}
		}
	}
}

// turnsAt returns when a window is next put, begins or ends; 0: none does.
func (k *calendar) turnsAt() (next int64) {
	consider := func(at int64) {
		if next == 0 || at < next {
			next = at
		}
	}
	for _, w := range k.ahead {
		consider(w.CreatedAt)
	}
	for _, w := range k.known {
		consider(w.Turn())
	}
	return next
}

// turn puts, begins and ends the windows whose time has come, as the replicated state does.
func (r *run) turn() {
	c := r.cluster
	c.ahead = slices.DeleteFunc(c.ahead, func(w *windows.Window) bool {
		if w.CreatedAt <= c.now {
			c.known = append(c.known, w)
		}
		return w.CreatedAt <= c.now
	})
	c.known = slices.DeleteFunc(c.known, func(w *windows.Window) bool {
		if w.Until <= c.now {
			for _, id := range w.Drained {
				c.renew(id, picture.Enabled)
			}
			return true
		}
		return false
	})
	for i, w := range c.known {
		if !w.Begun && w.From <= c.now {
			c.known[i] = r.begin(w)
		}
	}
}

// begin empties the nodes of a window: all jobs leave for a maintenance, and for a reservation those of other tenants that may be
// preempted.
func (r *run) begin(old *windows.Window) *windows.Window {
	w := *old
	w.Begun = true
	for _, id := range w.Nodes {
		if _, ok := r.cluster.Node(id); ok && w.Kind == windows.Maintenance {
			r.cluster.renew(id, drained)
			w.Drained = append(w.Drained, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.running)) {
		j := r.running[id]
		leaves := w.Kind == windows.Maintenance || j.row.Tenant != w.Tenant && windows.Yields(j.row)
		if leaves && slices.ContainsFunc(j.row.Tasks, func(t work.Task) bool { return w.Has(t.Node) }) {
			r.stop(j)
			if w.Kind == windows.Maintenance {
				j.row.Retries.Drained++
			} else {
				j.row.Retries.Preempted++
			}
		}
	}
	return &w
}

// drained returns a node as it is in a maintenance.
func drained(n *work.Node) *work.Node {
	d := *n
	d.State, d.Drain = v1.NodeState_DRAINED, &work.Drain{}
	return &d
}

// renew replaces the row of a node.
func (c *cluster) renew(id string, by func(*work.Node) *work.Node) {
	if i, ok := c.at[id]; ok {
		c.nodes[i].Node = by(c.nodes[i].Node)
	}
}
