package tables

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work/figures"
	"github.com/mindcoordinator/mind/fsm/work/inuse"
	"github.com/mindcoordinator/mind/fsm/work/waiting"
)

// working has values that the applying goroutine keeps beside the tables to be quick: figures that are changed in place and
// copied into the tables once per publish, and handles. All of it follows from the tables. Its maps are looked into,
// never ranged over.
type working struct {
	tenants map[string]uint32
	// ended is how many elements of each array are over and have a row that may go.
	ended      map[ident.Job]*endedElements
	nextTenant uint32
}

func newWorking() *working {
	return &working{
		tenants: map[string]uint32{},
		ended:   map[ident.Job]*endedElements{},
	}
}

// flush brings what was changed in place into the tables.
func (s *State) flush() {
	inuse.Flush(&s.leases.use)
	figures.Flush(&s.Sums)
	waiting.Flush(&s.Lists)
	s.typed.flush()
	s.jobs.shapes.Flush()
}
