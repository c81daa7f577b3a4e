package scheduler

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/place"
	"github.com/mindcoordinator/mind/scheduler/worth"
)

// Planner makes the same plans as Plan, and keeps the free capacity, the lanes and the prices between them. Before each
// plan it reads only the nodes and lanes that have changed. It is not safe for concurrent use.
type Planner struct {
	pool    place.Kept
	prices  *worth.Prices
	classes classes
	// fresh is the number of jobs that may still be placed before the prices are learned again. It begins at a fifth of
	// the jobs that the prices were learned from.
	fresh int
}

// ChangingView is a View whose rows never change: a changed row has a new address. *fsm.View implements it.
type ChangingView interface {
	View
	place.Changing
}

// Plan returns the result of the function Plan, if Options.Prices are the same.
func (p *Planner) Plan(v ChangingView, opts Options) Result {
	if opts.Prices == nil {
		opts.Prices = func() *worth.Prices {
			if p.prices == nil || p.fresh <= 0 {
				p.prices = worth.Learn(v.Mix(), v.Nodes())
				if p.prices != nil {
					p.fresh = max(100, p.prices.Jobs/5)
				}
			}
			return p.prices
		}
	}
	opts.classes, p.classes.keep = &p.classes, true
	result := plan(v, opts, func(shapes iter.Seq[work.Shape], prices func() *worth.Prices) *place.Pool {
		p.pool.Sync(v, shapes, prices)
		return p.pool.Pool
	})
	p.classes.rest()
	p.fresh -= result.Placed
	return result
}
