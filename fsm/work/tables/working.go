package tables

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/figures"
	"github.com/mindcoordinator/mind/fsm/work/waiting"
)

// working has values that the applying goroutine keeps beside the tables to be quick: figures that are changed in place and
// copied into the tables once per publish, and handles. All of it follows from the tables. Its maps are looked into,
// never ranged over.
type working struct {
	tenants map[string]uint32
	use     map[string]*useSlot
	// ended is how many elements of each array are over and have a row that may go.
	ended map[ident.Job]*endedElements
	// The slots that changed since the last publish, in the order of the changes.
	dirtyUse   []*useSlot
	nextTenant uint32
}

type useSlot struct {
	work.NodeUse
	node  string
	dirty bool
}

func newWorking() *working {
	return &working{
		tenants: map[string]uint32{},
		use:     map[string]*useSlot{},
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

// flush brings what was changed in place into the tables.
func (s *State) flush() {
	w := s.work
	for _, u := range w.dirtyUse {
		u.dirty = false
		use := u.NodeUse
		s.leases.use.Put(nodeUse{node: u.node, use: &use})
	}
	w.dirtyUse = w.dirtyUse[:0]
	figures.Flush(&s.Sums)
	waiting.Flush(&s.Lists)
	s.typed.flush()
	s.jobs.shapes.Flush()
}
