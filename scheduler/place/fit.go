package place

import (
	"github.com/mindcoordinator/mind/fsm/work"
)

// Fit finds places for the jobs of one shape. Capacity only shrinks during a pass, so a host without room stays without
// room: such hosts are skipped from then on.
type Fit struct {
	pool   *Pool
	shape  work.Shape
	scores *shapeScores
	kinds  []candidate
	// equal has the numbers of equate.
	equal  []int
	queues []queue
	spent  bitset
	// own is nil for jobs whose places only their shape limits.
	own *own
	// bars are the hosts that jobs of this fit may not use; nil: none.
	bars bitset
	// between is nil for shapes that ask for no domains.
	between *between
	nodes   []int // scratch: hosts of the job being placed
	masks   []uint64
}

// For returns a search for places for jobs of a shape. It examines the hosts at the first search.
func (p *Pool) For(shape work.Shape) *Fit {
	f := &Fit{pool: p, shape: shape, scores: p.scoresOf(&shape), spent: newBitset(len(p.hosts))}
	for _, k := range p.kinds {
		if gpus, ok := k.suits(&shape, p.keys); ok {
			f.kinds = append(f.kinds, candidate{kind: k, gpus: gpus})
		}
	}
	f.equate()
	f.bar(p.excluded(shape.Exclude))
	f.domainsFor()
	return f
}

func (k *kind) selected(selector string, keys []string) bool {
	if selector == "" {
		return true
	}
	for key, want := range selectorPairs(selector) {
		for i, name := range keys {
			if name == key && (k.labels[i] != want || !k.has[i]) {
				return false
			}
		}
	}
	return true
}

// Fits reports whether there is capacity for one more job, and takes none.
func (f *Fit) Fits() bool { return f.find(max(1, int(f.shape.Nodes))) }

// Place takes capacity for all tasks of one job, or for none.
func (f *Fit) Place() ([]work.TaskPlacement, bool) {
	want := max(1, int(f.shape.Nodes))
	if !f.find(want) {
		return nil, false
	}
	tasks := make([]work.TaskPlacement, want)
	for i, h := range f.nodes {
		f.pool.take(h, &f.shape, f.masks[i])
		tasks[i] = work.TaskPlacement{Node: f.pool.hosts[h].node.ID, GPUs: f.masks[i]}
	}
	return tasks, true
}

// find chooses the hosts, and the GPUs on each, with the lowest cost. The tasks of a gang run on equal GPUs, because
// the slowest rank determines the speed of all.
func (f *Fit) find(want int) bool {
	if f.between != nil {
		return f.findBetween(want)
	}
	f.enqueue()
	for i := range f.queues {
		f.queues[i].catchUp(f)
	}
	f.nodes, f.masks = f.nodes[:0], f.masks[:0]
	if want == 1 || !f.shape.NeedsGPU() {
		f.gather(f.queues, want)
		return len(f.nodes) == want
	}
	least, kept := 0.0, 0
	for i := range f.queues {
		cost := f.gather(f.queues[i:i+1], want)
		if len(f.nodes)-kept < want || kept > 0 && cost >= least {
			f.nodes, f.masks = f.nodes[:kept], f.masks[:kept]
			continue
		}
		least = cost
		f.nodes, f.masks = append(f.nodes[:0], f.nodes[kept:]...), append(f.masks[:0], f.masks[kept:]...)
		kept = want
	}
	return kept == want
}

// enqueue makes a queue for each set of equal GPUs.
func (f *Fit) enqueue() {
	if f.queues != nil {
		return
	}
	at := map[int]int{}
	for _, c := range f.kinds {
		i, ok := at[f.equal[c.number]]
		if !ok {
			i = len(f.queues)
			at[f.equal[c.number]] = i
			f.queues = append(f.queues, queue{equal: f.equal[c.number]})
		}
		c.seen = make([]int, len(c.log))
		f.queues[i].kinds = append(f.queues[i].kinds, c)
	}
}

// gather adds up to want hosts, the cheapest of the queues first, and returns their total cost.
func (f *Fit) gather(queues []queue, want int) float64 {
	total, begun := 0.0, len(f.nodes)
	for len(f.nodes)-begun < want {
		var next *scored
		var of *queue
		var host int
		var gpus uint64
		for i := range queues {
			if e, h, g := queues[i].best(f); e != nil && (next == nil || e.before(next)) {
				next, of, host, gpus = e, &queues[i], h, g
			}
		}
		if next == nil {
			break
		}
		e := *next
		if want > 1 {
			of.off = append(of.off, of.pop())
			// A group that was emptied and filled again may have two entries.
			for len(of.heap) > 0 && of.heap[0].group == e.group {
				of.pop()
			}
		}
		for host >= 0 && len(f.nodes)-begun < want {
			f.nodes, f.masks = append(f.nodes, host), append(f.masks, gpus)
			total += e.cost
			if want == 1 {
				break
			}
			host, gpus = f.hostOf(&e, host+1)
		}
	}
	for i := range queues {
		queues[i].restore()
	}
	return total
}

// whole chooses whole GPUs on a host; none for a job without GPUs.
func (f *Fit) whole(h *host, suited uint64) (uint64, bool) {
	if h.cpus < f.shape.CPUDemand() || h.mem < f.shape.MemMB {
		return 0, false
	}
	if f.shape.GPUs == 0 {
		return 0, true
	}
	return h.wiring().Pick(h.free&suited, int(f.shape.GPUs), f.shape.Topology == work.TopologyNVLink)
}
