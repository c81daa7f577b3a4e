package capacity

import (
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
)

// machineAt identifies the machines of one spec that are equal for every shape.
type machineAt struct {
	spec string
	machineKey
}

// excluded counts the nodes on a list of domains.CanonicalExclude, by machine.
func (c *Capacity) excluded(list string) map[machineAt]int {
	if list == "" {
		return nil
	}
	out := map[machineAt]int{}
	for id, n := range c.nodes { // order-free: counts
		if domains.Excludes(list, id) {
			out[machineAt{n.spec, n.key}]++
		}
	}
	return out
}

// SetLevels sets the labels that name domains, in the form of policy.Policy.
func (c *Capacity) SetLevels(list string) {
	if c.levels == nil || c.listed != list {
		c.listed, c.levels = list, domains.Levels(list)
	}
}

// Levels returns the levels of domains, innermost first, and the innermost level whose label some node has.
func (c *Capacity) Levels() (all []domains.Level, innermost domains.Level, found bool) {
	c.SetLevels(c.listed)
	for _, l := range c.levels {
		for _, n := range c.nodes { // order-free: any
			if n.Labels[l.Label] != "" {
				return c.levels, l, true
			}
		}
	}
	return c.levels, domains.Level{}, false
}

// byDomain counts, for a shape that asks for domains, the nodes of each domain that could hold a task.
type byDomain struct {
	shape *work.Shape
	cells map[domainCell]int
}

// domainCell identifies the nodes with equal GPUs in one domain. equal is empty if the nodes need not be equal.
type domainCell struct{ equal, domain string }

func newByDomain(s *work.Shape) byDomain {
	b := byDomain{shape: s}
	if s.Between == domains.Same && s.Nodes > 1 {
		b.cells = map[domainCell]int{}
	}
	return b
}

func (b *byDomain) add(equal, domain string, nodes int) {
	if b.cells == nil || domain == "" {
		return
	}
	if b.shape.GPUs == 0 {
		equal = ""
	}
	b.cells[domainCell{equal, domain}] += nodes
}

// room reports whether the domains could hold the shape, if there are enough nodes in total.
func (b *byDomain) room() Room {
	if b.cells == nil {
		return Room{}
	}
	if len(b.cells) == 0 {
		return Room{Lacks: NeedLevel}
	}
	nodes := int(b.shape.Nodes)
	segment := int(b.shape.Segment)
	if segment == 0 {
		segment = nodes
	}
	held, most, best := map[string]int{}, Room{Lacks: NeedDomain}, 0
	for at, n := range b.cells { // order-free: sums, and the first by name among equals
		held[at.equal] += n / segment
		if n > most.Most || n == most.Most && at.domain < most.Where {
			most.Most, most.Where = n, at.domain
		}
	}
	for _, n := range held { // order-free: a maximum
		best = max(best, n)
	}
	switch {
	case best*segment >= nodes:
		return Room{}
	case segment < nodes:
		return Room{Lacks: NeedSegments, Most: best}
	}
	return most
}
