package scheduler

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/place"
)

// arranged is the effect of maintenances and reservations on a class.
type arranged struct {
	// nodes is the number of nodes that are kept from the class.
	nodes int
	// own finds places on the nodes that are reserved for its tenant now, which are used first; nil: there are none.
	own *place.Fit
}

// keep counts the nodes that windows keep from a class, and finds those that are reserved for its tenant. The fit of
// the class excludes the former already.
func (p *pass) keep(c *class) {
	var own []string
	for _, w := range p.windows {
		switch {
		case !w.AdmitsClass(&c.key, p.view.Now()):
			c.arranged.nodes += len(w.Nodes)
		case w.Kind == windows.Reservation && w.Tenant == c.key.Tenant && w.Begun && c.key.Own == 0:
			own = append(own, w.Nodes...)
		}
	}
	if len(own) > 0 {
		c.arranged.own = p.pool.For(c.key.Shape)
		c.arranged.own.BarOthers(own)
	}
}

// place takes places for one job of a class out of the pool.
func (c *class) place() ([]work.TaskPlacement, bool) {
	if c.arranged.own != nil {
		if tasks, ok := c.arranged.own.Place(); ok {
			return tasks, true
		}
	}
	return c.fit.Place()
}

// why returns the reason why no job of a class fits.
func (p *pass) why(c *class) reason.Reason {
	if c.arranged.nodes == 0 || !p.narrowed(c, c.key.Shape).Fits() {
		return c.fit.Reason()
	}
	return reason.New(reason.NodesKept, c.fit.Demand(), c.arranged.nodes)
}

func windowsOf(v View) []*windows.Window { return slices.Collect(v.Windows()) }

// keepsAny reports whether a window keeps one of these places from a class.
func (p *pass) keepsAny(c *class, places []work.TaskPlacement) bool {
	for _, w := range p.windows {
		if !w.AdmitsClass(&c.key, p.view.Now()) && slices.ContainsFunc(places, func(t work.TaskPlacement) bool { return w.Has(t.Node) }) {
			return true
		}
	}
	return false
}
