package scheduler

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/scheduler/quota"
)

// Blocked are the classes that a pass blocked. Those of a Planner may be read until it plans again.
type Blocked struct {
	classes *classes
	number  uint64
}

// Has reports whether a class is blocked.
func (b Blocked) Has(key *work.ClassKey) bool {
	if b.classes == nil || b.classes.number != b.number {
		return false
	}
	c := b.classes.byKey[*key]
	return c != nil && b.classes.blocked(c)
}

// Keys returns the blocked classes in the order of the state.
func (b Blocked) Keys() []work.ClassKey {
	var all []work.ClassKey
	if b.classes != nil && b.classes.number == b.number {
		for _, c := range b.classes.all {
			if b.classes.blocked(c) {
				all = append(all, c.Key)
			}
		}
	}
	return all
}

// Any reports whether a class is blocked.
func (b Blocked) Any() bool {
	return b.classes != nil && b.classes.number == b.number && slices.ContainsFunc(b.classes.all, b.classes.blocked)
}

// result completes the result. The reasons of blocked classes describe the end of the pass.
func (p *pass) result() Result {
	if p.res.Placed > 0 {
		p.searches.changed()
	}
	p.res.Blocked = Blocked{p.classes, p.classes.number}
	for _, c := range p.classes.own {
		if c.Blocked && c.limits.Bars(c.Key.Shape) == "" && p.searches.fitOf(c.search).Settling() {
			p.res.Settling = true
		}
	}
	var reasons []jobverbs.ClassReason
	if !p.opts.Quiet {
		reasons = p.reasons()
	}
	p.flush()
	if p.placed != nil && !p.res.More {
		p.res.OrderPreemptions = p.preemptForOrder()
	}
	switch res := &p.res; {
	case len(res.Commands) > 0:
		res.Commands[len(res.Commands)-1].Reasons = reasons
	case len(reasons) > 0:
		res.ReasonsOnly = true
		res.Commands = []jobverbs.PlaceJobs{{BasedOn: p.view.Index(), Reasons: reasons}}
	}
	return p.res
}

// reasons returns the reasons why classes wait that the state does not have yet. It looks at the classes whose reason may
// have changed, and leaves those in doubt that the state does not know or that were not blocked.
func (p *pass) reasons() []jobverbs.ClassReason {
	k := p.classes
	if p.res.Placed > 0 {
		for _, g := range k.limited {
			if g.limits.Moved(&g.stand, g.most) {
				g.stand = quota.Stand{} // The state may refuse the placements.
				for _, c := range g.classes {
					k.doubt(c)
				}
			}
		}
	}
	for _, s := range p.searches.live {
		p.hear(s)
	}
	var wrong []*class
	left := k.untold[:0]
	for _, c := range k.untold {
		switch {
		case c.gone:
			continue
		case !k.blocked(c):
			left = append(left, c)
			continue
		}
		if p.why(c) != c.waits(p.view) {
			wrong, left = append(wrong, c), append(left, c)
		} else {
			c.doubted = false
		}
	}
	clear(k.untold[len(left):])
	k.untold = left
	slices.SortFunc(wrong, func(a, b *class) int {
		if work.ClassLess(a.Key, b.Key) {
			return -1
		}
		return 1
	})
	var reasons []jobverbs.ClassReason
	for _, c := range wrong {
		reasons = append(reasons, jobverbs.ClassReason{Class: c.Key, Reason: p.why(c)})
	}
	return reasons
}

// why returns the reason why the jobs of a blocked class wait.
func (p *pass) why(c *class) reason.Reason {
	if why := c.limits.Bars(c.Key.Shape); why != "" {
		return why
	}
	if c.pass != p.classes.number {
		return p.searches.reason(c.at)
	}
	return p.searches.reason(c.search)
}

// hear doubts the reasons of the classes that wait at a search, if the search has another one now.
func (p *pass) hear(s *search) {
	blocked := len(s.classes)
	if s.opened {
		blocked = s.closed
	}
	why := reason.Reason("")
	if blocked > 0 {
		why = p.searches.reason(s)
	}
	if why == s.said && blocked == len(s.classes) {
		return
	}
	s.said = why
	for _, c := range s.classes {
		p.classes.doubt(c)
	}
}
