package scheduler

import (
	"math"

	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/quota"
)

// class is a group of waiting jobs with the same needs and limits.
type class struct {
	order.Class
	limits quota.Limits
	// group has the classes with these limits, and this one at a place.
	group  *limited
	placed int
	// at is the search at which the class waits, and the class is the nth of those that do; nil: its limits bar it, or it
	// is of one job.
	at  *search
	nth int
	// search finds its places, and admitted says what the windows do to it. Both are of the given generation of
	// searches.
	search     *search
	admitted   *admitted
	generation uint64
	// pass is the number of the last pass in which it took part.
	pass uint64
	// urgency is that of its most urgent job, if it is known to be of the present jobs.
	urgency order.Urgency
	urgent  bool
	// tried counts the jobs that were tried on places that are kept for reserved starts, and backfilled those that got
	// some.
	tried, backfilled int
	// why is the reason in the state why its jobs wait, if it was read. doubted: it may be wrong.
	why     reason.Reason
	known   bool
	doubted bool
	// gone: it has no jobs any more.
	gone bool
}

// waitAt moves a class to a search; nil: to none.
func (c *class) waitAt(s *search) {
	if c.at == s {
		return
	}
	if old := c.at; old != nil {
		last := old.classes[len(old.classes)-1]
		old.classes[c.nth], last.nth = last, c.nth
		old.classes[len(old.classes)-1] = nil
		old.classes = old.classes[:len(old.classes)-1]
		old.urgent = false
	}
	if c.at = s; s != nil {
		c.nth, s.urgent = len(s.classes), false
		s.classes = append(s.classes, c)
	}
}

// waits returns the reason in the state why the jobs of a class wait.
func (c *class) waits(v View) reason.Reason {
	if !c.known {
		c.why, c.known = v.ClassReason(c.Key), true
	}
	return c.why
}

// forgetUrgency notes that other jobs wait in the class.
func (c *class) forgetUrgency() {
	if c.urgent = false; c.at != nil {
		c.at.urgent = false
	}
}

// limited are the classes with the same limits.
type limited struct {
	limits  quota.Limits
	classes []*class
	// most is the largest number of GPUs that a job of them has needed, in thousandths. stand is where the limits stood
	// when the classes were last looked at.
	most  int
	stand quota.Stand
}

// limit adds a class to those with its limits.
func (k *classes) limit(c *class) {
	g := k.byLimits[c.limits]
	if g == nil {
		g = &limited{limits: c.limits}
		k.byLimits[c.limits] = g
		k.limited = append(k.limited, g)
	}
	c.group, c.placed = g, len(g.classes)
	g.classes = append(g.classes, c)
	if need := c.Key.Shape.GPUMilli(); need > g.most {
		g.most, g.stand = need, quota.Stand{}
	}
}

// free removes a class from those with its limits.
func (k *classes) free(c *class) {
	g := c.group
	last := g.classes[len(g.classes)-1]
	g.classes[c.placed], last.placed = last, c.placed
	g.classes[len(g.classes)-1] = nil
	g.classes = g.classes[:len(g.classes)-1]
}

// none is the urgency of no job.
var none = order.Urgency{Since: math.MaxInt64}

// urgencyOf returns the urgency of the most urgent job of a class.
func (p *pass) urgencyOf(c *class) order.Urgency {
	if !c.urgent {
		if c.urgency, c.urgent = none, true; p.classes.lanes.Ready() {
			c.urgency = p.classes.lanes.Urgency(&c.Class)
		} else {
			c.urgency = order.UrgencyOf(p.view, p.ranking, &c.Class)
		}
	}
	return c.urgency
}
