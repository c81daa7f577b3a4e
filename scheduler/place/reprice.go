package place

import "github.com/mindcoordinator/mind/scheduler/worth"

// whole is a GPU in thousandths.
const whole = 1000

// Reprice replaces the prices. A Fit that was made before must not be used afterwards.
func (p *Pool) Reprice(prices *worth.Prices) {
	if prices == p.prices {
		return
	}
	p.prices = prices
	for _, g := range p.groups { // order-free: each by itself
		clear(g.scores)
	}
	for _, k := range p.kinds {
		k.terms = nil
		if prices == nil {
			continue
		}
		k.terms = prices.Of(k.gpus)
		for _, g := range k.groups {
			g.value = prices.Value(k.terms, g.cpus, g.mem, int(g.number), g.left)
		}
	}
}
