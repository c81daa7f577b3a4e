package scheduler

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/place"
)

// kept is what maintenances and reservations mean for a class.
type kept struct {
	// nodes is how many are kept from it.
	nodes int
	// own finds places on the nodes that are reserved for its tenant now: they are used first. nil: there are none.
	own *place.Fit
}

// keep takes the nodes out of the places of a class that windows keep from it.
func (p *pass) keep(c *class) {
	var own []string
	for _, w := range p.windows {
		switch {
		case !w.AdmitsClass(&c.key, p.view.Now()):
			c.fit.Bar(w.Nodes)
			c.kept.nodes += len(w.Nodes)
		case w.Kind == windows.Reservation && w.Tenant == c.key.Tenant && w.Begun && c.key.Own == 0:
			own = append(own, w.Nodes...)
		}
	}
	if len(own) > 0 {
		c.kept.own = p.pool.For(c.key.Shape)
		c.kept.own.BarOthers(own)
	}
}

// place takes capacity for one job of a class.
func (c *class) place() ([]work.TaskPlacement, bool) {
	if c.kept.own != nil {
		if tasks, ok := c.kept.own.Place(); ok {
			return tasks, true
		}
	}
	return c.fit.Place()
}

// why says why no job of a class fits.
func (p *pass) why(c *class) reason.Reason {
	if c.kept.nodes == 0 || c.key.Own != 0 || !p.pool.For(c.key.Shape).Fits() {
		return c.fit.Reason()
	}
	return reason.New(reason.NodesKept, c.fit.Demand(), c.kept.nodes)
}

func windowsOf(v View) []*windows.Window { return slices.Collect(v.Windows()) }
