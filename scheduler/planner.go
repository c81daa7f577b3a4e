package scheduler

import "github.com/mindcoordinator/mind/scheduler/place"

// Planner makes the plans that Plan makes, and keeps between them what it would have to read again: the free capacity, of
// which it looks only at the nodes that have changed, the lanes, of which it reads only those that have, and the prices. It is not safe for concurrent use.
type Planner struct {
	pool   place.Kept
	prices *place.Prices
	lanes  keptLanes
	// fresh is how many more jobs are placed before the prices are learned again: when about a fifth is new.
	fresh int
}

// ChangingView is a View whose rows never change: what is new has a new address. *fsm.View implements it.
type ChangingView interface {
	View
	place.Changing
}

// Plan is the function Plan. With the same Options.Prices it has the same result.
func (p *Planner) Plan(v ChangingView, opts Options) Result {
	if opts.Prices == nil {
		opts.Prices = func() *place.Prices {
			if p.prices == nil || p.fresh <= 0 {
				p.prices = place.Learn(v.Mix(), v.Nodes())
				if p.prices != nil {
					p.fresh = max(100, p.prices.Jobs/5)
				}
			}
			return p.prices
		}
	}
	if _, ok := v.(lanesView); ok {
		opts.kept = &p.lanes
	}
	result := plan(v, opts, func(prices func() *place.Prices) *place.Pool {
		p.pool.Sync(v, shapes(v), prices)
		return p.pool.Pool
	})
	p.lanes.view = nil // It is not kept: it may be large.
	p.fresh -= result.Placed
	return result
}
