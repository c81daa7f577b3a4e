package place

import (
	"cmp"
	"slices"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
)

// levelMap assigns the hosts to the domains of one level. Domains are numbered in the order of their names. The number
// after the last stands for hosts in no domain.
type levelMap struct {
	names   []string
	of      []int32 // the domain of each host
	members [][]int32
}

// none returns the number that stands for no domain.
func (l *levelMap) none() int { return len(l.names) }

// level returns the map of a label. The result is cached while the nodes of the pool stay the same.
func (p *Pool) level(label string) *levelMap {
	if l := p.levels[label]; l != nil {
		return l
	}
	l := &levelMap{of: make([]int32, len(p.hosts))}
	at := map[string]int32{}
	for i := range p.hosts {
		if name := p.hosts[i].node.Labels[label]; name != "" {
			at[name] = 0
		}
	}
	for name := range at { // order-free: sorted below
		l.names = append(l.names, name)
	}
	slices.Sort(l.names)
	for i, name := range l.names {
		at[name] = int32(i)
	}
	l.members = make([][]int32, len(l.names)+1)
	for i := range p.hosts {
		d, ok := at[p.hosts[i].node.Labels[label]]
		if !ok {
			d = int32(l.none())
		}
		l.of[i] = d
		l.members[d] = append(l.members[d], int32(i))
	}
	if p.levels == nil {
		p.levels = map[string]*levelMap{}
	}
	p.levels[label] = l
	return l
}

// between places the gangs of a shape that asks for domains. It counts, for each set of GPUs and each domain, the hosts
// that can hold a task. Later it examines only the hosts whose capacity was taken since.
type between struct {
	*levelMap
	kinds  []asked // by number of the kind
	counts [][]int // by set of GPUs and domain
	slots  int
	// open are the counted hosts. read is the number of entries of pool.taken that were examined.
	open    bitset
	read    int
	counted bool
	entries map[*group]*open
	// scratch
	left     []int
	picks    []pick
	distinct []*open
}

// asked says which GPUs of a kind of host the shape may use. able is false if the kind does not meet the shape's needs;
// slot is the set of GPUs in counts.
type asked struct {
	able bool
	gpus uint64
	slot int
}

// open is a group with room, and its hosts in one domain.
type open struct {
	scored
	hosts []int
}

// pick is a number of tasks for a domain.
type pick struct{ domain, tasks int }

// domainsFor prepares the fit if its shape asks for domains.
func (f *Fit) domainsFor() {
	if f.shape.Between == domains.Anywhere || f.shape.Nodes <= 1 {
		return
	}
	b := &between{levelMap: f.pool.level(f.shape.Level), kinds: make([]asked, len(f.pool.kinds)), entries: map[*group]*open{}}
	slots := map[int]int{}
	for _, c := range f.kinds {
		equal := f.equal[c.number]
		if !f.shape.NeedsGPU() {
			equal = 0 // The tasks of such jobs need not run on equal nodes.
		}
		slot, ok := slots[equal]
		if !ok {
			slot = len(slots)
			slots[equal] = slot
		}
		b.kinds[c.number] = asked{able: true, gpus: c.gpus, slot: slot}
	}
	b.slots = len(slots)
	f.between = b
}

// count counts the hosts that can hold a task, or updates the counts.
func (b *between) count(f *Fit) {
	if !b.counted {
		b.counted, b.read = true, len(f.pool.taken)
		b.open = newBitset(len(f.pool.hosts))
		b.counts = make([][]int, b.slots)
		for i := range b.counts {
			b.counts[i] = make([]int, len(b.members))
		}
		for i := range f.kinds {
			c := &f.kinds[i]
			for n := int(f.shape.GPUs); n < len(c.log); n++ {
				for _, g := range c.log[n] {
					if g.count > 0 && !g.lacksRoom(&f.shape, c.gpus) {
						b.add(f, g, b.kinds[c.number])
					}
				}
			}
		}
		return
	}
	for ; b.read < len(f.pool.taken); b.read++ {
		i := f.pool.taken[b.read]
		if !b.open.has(i) {
			continue
		}
		h := &f.pool.hosts[i]
		k := b.kinds[h.kind.number]
		if h.group.lacksRoom(&f.shape, k.gpus) || !f.holds(h, k.gpus) {
			b.open.remove(i)
			b.counts[k.slot][b.of[i]]--
		}
	}
}

// add counts the hosts of a group. Adding a group twice has no effect.
func (b *between) add(f *Fit, g *group, k asked) {
	for i := g.hosts.nextNotIn(f.spent, 0); i >= 0; i = g.hosts.nextNotIn(f.spent, i+1) {
		if !b.open.has(i) && f.holds(&f.pool.hosts[i], k.gpus) {
			b.open.add(i)
			b.counts[k.slot][b.of[i]]++
		}
	}
}

// holds reports whether a host whose group has room can hold a task.
func (f *Fit) holds(h *host, suited uint64) bool {
	if f.shape.FractionMilli > 0 {
		return true
	}
	_, ok := f.whole(h, suited)
	return ok
}

// findBetween chooses the domains, and the hosts in them. Of several sets of GPUs it takes the one whose hosts cost the
// least.
func (f *Fit) findBetween(want int) bool {
	b := f.between
	b.count(f)
	f.nodes, f.masks = f.nodes[:0], f.masks[:0]
	least, kept := 0.0, 0
	for slot := range b.counts {
		if !b.choose(&f.shape, slot, want) {
			continue
		}
		cost := f.gatherPicks(slot)
		if kept > 0 && cost >= least {
			f.nodes, f.masks = f.nodes[:kept], f.masks[:kept]
			continue
		}
		least = cost
		f.nodes, f.masks = append(f.nodes[:0], f.nodes[kept:]...), append(f.masks[:0], f.masks[kept:]...)
		kept = want
	}
	return kept == want
}

// choose decides how many tasks go into each domain. The picks are in the order of the domains. It returns false if the
// tasks do not fit.
func (b *between) choose(s *work.Shape, slot, want int) bool {
	b.left, b.picks = append(b.left[:0], b.counts[slot]...), b.picks[:0]
	fits := false
	switch s.Between {
	case domains.Spread:
		fits = b.spread(want)
	case domains.Prefer:
		fits = b.pack(want, 1, b.none())
		if !fits { // with the hosts that are in no domain
			b.left, b.picks = append(b.left[:0], b.counts[slot]...), b.picks[:0]
			fits = b.pack(want, 1, b.none()+1)
		}
	default:
		segment := int(s.Segment)
		if segment == 0 {
			segment = want
		}
		fits = b.pack(want, segment, b.none())
	}
	slices.SortFunc(b.picks, func(x, y pick) int { return cmp.Compare(x.domain, y.domain) })
	return fits
}

// pack puts the tasks, in whole segments, into as few of the first domains as possible. While no domain holds the
// remaining tasks, it takes the domain that holds most. Then it takes, of those that hold the rest, the one with the
// fewest open hosts, so that large domains stay whole for jobs that need them.
func (b *between) pack(want, segment, first int) bool {
	for want > 0 {
		best, most := -1, -1
		for d, n := range b.left[:first] {
			switch {
			case n < segment:
			case n/segment*segment >= want:
				if best < 0 || n < b.left[best] {
					best = d
				}
			case most < 0 || n/segment > b.left[most]/segment || n/segment == b.left[most]/segment && n < b.left[most]:
				most = d
			}
		}
		if best >= 0 {
			b.picks = append(b.picks, pick{best, want})
			return true
		}
		if most < 0 {
			return false
		}
		tasks := b.left[most] / segment * segment
		b.picks = append(b.picks, pick{most, tasks})
		b.left[most] = 0
		want -= tasks
	}
	return true
}

// spread takes one host of each domain in turn, beginning with the domain that has the fewest open hosts, until there
// are enough.
func (b *between) spread(want int) bool {
	for d, n := range b.left {
		if n > 0 {
			b.picks = append(b.picks, pick{domain: d})
		}
	}
	slices.SortStableFunc(b.picks, func(x, y pick) int { return cmp.Compare(b.left[x.domain], b.left[y.domain]) })
	for taken := true; want > 0 && taken; {
		taken = false
		for i := range b.picks {
			if p := &b.picks[i]; want > 0 && b.left[p.domain] > 0 {
				p.tasks++
				b.left[p.domain]--
				want--
				taken = true
			}
		}
	}
	b.picks = slices.DeleteFunc(b.picks, func(p pick) bool { return p.tasks == 0 })
	return want == 0
}

// gatherPicks adds the cheapest hosts of each picked domain, and returns their cost. Ranks are in the order of the
// domains, and within a domain in the order of the hosts.
func (f *Fit) gatherPicks(slot int) float64 {
	b, total := f.between, 0.0
	for _, p := range b.picks {
		b.distinct = b.distinct[:0]
		for _, m := range b.members[p.domain] {
			i := int(m)
			h := &f.pool.hosts[i]
			if k := b.kinds[h.kind.number]; !b.open.has(i) || k.slot != slot {
				continue
			}
			e := b.entryOf(f, h.group)
			if len(e.hosts) == 0 {
				b.distinct = append(b.distinct, e)
			}
			e.hosts = append(e.hosts, i)
		}
		slices.SortFunc(b.distinct, func(x, y *open) int {
			return cmp.Or(cmp.Compare(x.cost, y.cost), x.compare(y.group))
		})
		begun := len(f.nodes)
		for _, e := range b.distinct {
			for _, i := range e.hosts[:min(len(e.hosts), p.tasks-(len(f.nodes)-begun))] {
				f.nodes = append(f.nodes, i)
				total += e.cost
			}
			e.hosts = e.hosts[:0]
		}
		slices.Sort(f.nodes[begun:])
		for _, i := range f.nodes[begun:] {
			f.masks = append(f.masks, f.maskOn(i))
		}
	}
	return total
}

// entryOf returns a group with the cost of a task there. The result is cached, because the load of a group never
// changes.
func (b *between) entryOf(f *Fit, g *group) *open {
	e := b.entries[g]
	if e == nil {
		suited := b.kinds[g.kind.number].gpus
		cost, from := f.score(g, suited)
		e = &open{scored: scored{g, suited, cost, from}}
		b.entries[g] = e
	}
	return e
}

// maskOn returns the GPUs that a task gets on a host.
func (f *Fit) maskOn(i int) uint64 {
	h := &f.pool.hosts[i]
	e := f.between.entryOf(f, h.group)
	if f.shape.FractionMilli > 0 {
		return f.part(h, &e.scored)
	}
	gpus, _ := f.whole(h, e.suited)
	return gpus
}

// mostInOne returns the largest number of tasks that one domain can hold, and the name of that domain.
func (b *between) mostInOne() (most int, name string) {
	for slot := range b.counts {
		for d, n := range b.counts[slot][:b.none()] {
			if n > most {
				most, name = n, b.names[d]
			}
		}
	}
	return most, name
}

// segments returns the number of whole segments that fit, for the set of GPUs with the most.
func (b *between) segments(segment int) (most int) {
	for slot := range b.counts {
		n := 0
		for _, open := range b.counts[slot][:b.none()] {
			n += open / segment
		}
		most = max(most, n)
	}
	return most
}
