package scheduler

import (
	"slices"

	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/preempt"
)

// mostOffered is the number of waiting jobs that one decision about preemption for the policy's order considers.
const mostOffered = 256

// preemptForOrder decides for the waiting jobs that the pass did not place, in their order.
func (p *pass) preemptForOrder() []preempt.Decision {
	o := preempt.NewOrder(p.view, p.ranking, p.opts.Running)
	for _, c := range p.res.Commands {
		for i := range c.Placements {
			if j := p.placed[c.Placements[i].Job]; j != nil {
				o.Place(j, c.Placements[i].Tasks)
			}
		}
	}
	var made []preempt.Decision
	for _, w := range p.left(mostOffered) {
		s := &w.Job.Shape
		if w.class.Key.Own != 0 || s.FractionMilli > 0 || s.GPUs == 0 || w.class.limits.Bars(*s) != "" {
			continue
		}
		m := o.Decide(w.Job, w.Rank)
		if m == nil {
			continue
		}
		w.class.limits.Take(*s, m.For.Tasks)
		if len(m.Victims) > 0 {
			made = append(made, *m)
		}
	}
	return made
}

// waiting is a job that the pass did not place.
type waiting struct {
	order.Ranked
	class *class
}

// left returns up to most jobs that the pass did not place, in order: the first ones of each lane.
func (p *pass) left(most int) []waiting {
	var all []waiting
	for _, c := range p.classes.all {
		if !p.classes.blocked(c) {
			continue
		}
		for r := range order.Ahead(p.view, p.ranking, &c.Class) {
			for _, one := range order.InFull(r.Job, most) {
				if p.placed[one.ID] == nil {
					all = append(all, waiting{order.Ranked{Job: one, Rank: r.Rank}, c})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b waiting) int { return order.ByRank(a.Ranked, b.Ranked) })
	return all[:min(len(all), most)]
}
