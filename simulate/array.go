package simulate

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/simulate/trace"
)

// array is a job array that limits how many of its elements run at a time.
type array struct {
	id   ident.Job
	next uint32
}

// bound makes the row of the nth job an element of its array.
func (c *cluster) bound(t *trace.Job, n int, row *work.Job, arrays map[string]*array) {
	a := arrays[t.Array]
	if a == nil {
		a = &array{}
		a.id, _ = ident.Array(uint64(n + 1))
		arrays[t.Array], c.bounds[a.id] = a, t.MaxParallel
	}
	row.ID, row.MaxParallel = a.id.At(a.next), t.MaxParallel
	a.next++
}

// Array implements scheduler.View: the row of an array with the fields that planning reads.
func (c *cluster) Array(id ident.Job) (*work.Job, bool) {
	most, ok := c.bounds[id]
	return &work.Job{ID: id, MaxParallel: most, Array: &work.Array{Rows: work.ElementsWithARow{Live: uint32(c.Live(id))}}}, ok
}
