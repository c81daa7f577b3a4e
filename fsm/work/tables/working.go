package tables

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/waiting"
)

// working is what the applying goroutine keeps beside the tables to be quick: figures that are changed in place and
// copied into the tables once per publish, and handles. All of it follows from the tables. Its maps are looked into,
// never ranged over.
type working struct {
	tenants map[string]uint32
	use     map[string]*useSlot
	queues  map[string]*queueSlot
	shares  map[tenantQueue]*shareSlot
	// totals is what each tenant has in all queues together.
	totals map[string]*queueFigures
	// ended is how many elements of each array are over and have a row that may go.
	ended map[ident.Job]*endedElements
	// What changed since the last publish, in the order of the changes.
	dirtyUse    []*useSlot
	dirtyQueues []*queueSlot
	dirtyShares []*shareSlot
	nextTenant  uint32
}

type useSlot struct {
	work.NodeUse
	node  string
	dirty bool
}

type queueSlot struct {
	queueFigures
	name  string
	dirty bool
}

// shareSlot is what a tenant has in a queue.
type shareSlot struct {
	queueFigures
	of tenantQueue
	// total is that of the tenant, shared by all its slots.
	total *queueFigures
	dirty bool
}

func newWorking() *working {
	return &working{
		tenants: map[string]uint32{},
		use:     map[string]*useSlot{},
		queues:  map[string]*queueSlot{},
		shares:  map[tenantQueue]*shareSlot{},
		totals:  map[string]*queueFigures{},
		ended:   map[ident.Job]*endedElements{},
	}
}

func (w *working) useOf(node string) *useSlot {
	u, ok := w.use[node]
	if !ok {
		u = &useSlot{node: node}
		w.use[node] = u
	}
	return u
}

func (w *working) touchUse(u *useSlot) {
	if !u.dirty {
		u.dirty = true
		w.dirtyUse = append(w.dirtyUse, u)
	}
}

// queueOf returns the figures of a queue, to be changed.
func (w *working) queueOf(name string) *queueSlot {
	q, ok := w.queues[name]
	if !ok {
		q = &queueSlot{name: name}
		w.queues[name] = q
	}
	if !q.dirty {
		q.dirty = true
		w.dirtyQueues = append(w.dirtyQueues, q)
	}
	return q
}

// shareOf returns the figures of a tenant in a queue, to be changed.
func (w *working) shareOf(tenant, queue string) *shareSlot {
	of := tenantQueue{tenant, queue}
	f, ok := w.shares[of]
	if !ok {
		f = &shareSlot{of: of, total: w.totalOf(tenant)}
		w.shares[of] = f
	}
	if !f.dirty {
		f.dirty = true
		w.dirtyShares = append(w.dirtyShares, f)
	}
	return f
}

// totalOf returns what a tenant has in all queues together, to be changed through its shares.
func (w *working) totalOf(tenant string) *queueFigures {
	t, ok := w.totals[tenant]
	if !ok {
		t = &queueFigures{}
		w.totals[tenant] = t
	}
	return t
}

// hold counts what a lease takes (or, when it ends, gives back) of its tenant's part of a queue.
func (f *shareSlot) hold(gpuMilli int) {
	f.gpuMilli += gpuMilli
	f.total.gpuMilli += gpuMilli
}

// flush brings what was changed in place into the tables.
func (s *State) flush() {
	w := s.work
	for _, u := range w.dirtyUse {
		u.dirty = false
		use := u.NodeUse
		s.leases.use.Put(nodeUse{node: u.node, use: &use})
	}
	for _, q := range w.dirtyQueues {
		q.dirty = false
		figures := q.queueFigures
		s.queues.figures.Put(namedFigures{name: q.name, figures: &figures})
	}
	for _, f := range w.dirtyShares {
		f.dirty = false
		figures := f.queueFigures
		s.queues.shares.Put(tenantFigures{of: f.of, figures: &figures})
	}
	waiting.Flush(&s.Lists)
	s.typed.flush()
	s.jobs.shapes.Flush()
	w.dirtyUse, w.dirtyQueues, w.dirtyShares = w.dirtyUse[:0], w.dirtyQueues[:0], w.dirtyShares[:0]
}
