package place

import "math/bits"

// queue has the groups with room for a shape, among the hosts with equal GPUs. It is a binary heap with the
// cheapest group at the top. Empty groups are dropped when they reach the top.
type queue struct {
	equal int
	kinds []candidate
	heap  []scored
	off   []scored // entries taken off while a gang is gathered
}

// candidate is a kind of host that meets the shape's needs. gpus are the indices of the GPUs of the right type and
// size. seen counts the entries that were read of each log of the kind.
type candidate struct {
	*kind
	gpus uint64
	seen []int
}

// scored is a group with the cost of a task there. The load of a group never changes, so its score does not either.
type scored struct {
	*group
	suited uint64
	cost   float64
	from   uint16
}

func (a *scored) before(b *scored) bool {
	if a.cost != b.cost {
		return a.cost < b.cost
	}
	return a.compare(b.group) < 0
}

// catchUp adds the groups that got their first host since the last call.
func (q *queue) catchUp(f *Fit) {
	s := &f.shape
	for i := range q.kinds {
		c := &q.kinds[i]
		for n := int(s.GPUs); n < len(c.log); n++ {
			for ; c.seen[n] < len(c.log[n]); c.seen[n]++ {
				g := c.log[n][c.seen[n]]
				if g.count == 0 || g.lacksRoom(s, c.gpus) {
					continue
				}
				cost, from := f.score(g, c.gpus)
				q.push(scored{g, c.gpus, cost, from})
			}
		}
	}
}

// best returns the cheapest group with a host that the job may use, its first such host, and the GPUs there; nil: none.
func (q *queue) best(f *Fit) (*scored, int, uint64) {
	for len(q.heap) > 0 {
		top := &q.heap[0]
		if top.count == 0 {
			q.pop()
			continue
		}
		if h, gpus := f.hostOf(top, 0); h >= 0 {
			return top, h, gpus
		}
		q.off = append(q.off, q.pop())
	}
	return nil, -1, 0
}

// restore pushes the entries that were taken off.
func (q *queue) restore() {
	for _, e := range q.off {
		q.push(e)
	}
	q.off = q.off[:0]
}

func (q *queue) push(e scored) {
	q.heap = append(q.heap, e)
	for i := len(q.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.heap[i].before(&q.heap[up]) {
			return
		}
		q.heap[i], q.heap[up] = q.heap[up], q.heap[i]
		i = up
	}
}

func (q *queue) pop() scored {
	out, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if q.heap[child].before(&q.heap[least]) {
				least = child
			}
		}
		if least == i {
			return out
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
}

// hostOf returns the first host of a group, from an index on, that can take a task, and the GPUs for it; -1: none.
// Hosts whose GPUs are not linked as requested are not examined again.
func (f *Fit) hostOf(e *scored, from int) (int, uint64) {
	for h := e.hosts.nextNotIn(f.spent, from); h >= 0; h = e.hosts.nextNotIn(f.spent, h+1) {
		if f.shape.FractionMilli > 0 {
			return h, f.part(&f.pool.hosts[h], e)
		}
		if gpus, ok := f.whole(&f.pool.hosts[h], e.suited); ok {
			return h, gpus
		}
		f.spent.add(h)
	}
	return -1, 0
}

// part returns the GPU of a host that a fraction goes to.
func (f *Fit) part(h *host, e *scored) uint64 {
	if e.from == whole {
		gpus, _ := h.wiring().Pick(h.free&e.suited, 1, false)
		return gpus
	}
	for rest := h.shared & e.suited; rest != 0; rest &= rest - 1 {
		if g := bits.TrailingZeros64(rest); h.left[g] == e.from {
			return 1 << g
		}
	}
	return 0
}
