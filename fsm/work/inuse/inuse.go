// Package inuse counts what leases and claims take of each node, and lists the nodes that have changed from one view to the next.
//
// All of it is derived from the leases and the claims. It is counted in place, and brought into what views read by [Flush]: so
// a change costs the same however many leases there are, and an entry copies each figure that it changes once.
package inuse

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/changes"
)

type nodeUse struct {
	node string
	use  *work.NodeUse
}

// Book has the figures. Functions change them; a [Figures] reads them as of the last Flush.
type Book struct {
	use kernel.Index[nodeUse]
	// changed is up to where the log of the nodes goes.
	changed changes.Mark[string]
	// work is nil in a frozen copy.
	work *working
}

// working has the figures that are changed in place. Its map is looked into, never ranged over.
type working struct {
	slots map[string]*slot
	// dirty are the slots that changed since the last flush, in the order of the changes.
	dirty []*slot
	// changed are the nodes whose row or use has changed.
	changed *changes.Log[string]
}

type slot struct {
	work.NodeUse
	node  string
	dirty bool
}

// New returns figures of no node.
func New() Book {
	return Book{
		use:  kernel.NewIndex(func(a, b nodeUse) bool { return a.node < b.node }),
		work: &working{slots: map[string]*slot{}, changed: changes.New[string]()},
	}
}

// Flush makes visible to Freeze what is counted in place.
func Flush(b *Book) {
	w := b.work
	for _, u := range w.dirty {
		u.dirty = false
		use := u.NodeUse
		b.use.Put(nodeUse{node: u.node, use: &use})
		w.changed.Add(u.node)
	}
	w.dirty, b.changed = w.dirty[:0], w.changed.End()
}

// Freeze returns a copy for a view.
func Freeze(b *Book) Book { return Book{use: b.use.Freeze(), changed: b.changed} }

func (w *working) slotOf(node string) *slot {
	u, ok := w.slots[node]
	if !ok {
		u = &slot{node: node}
		w.slots[node] = u
	}
	return u
}

// Now returns the part of a node that is taken at present. The caller does not change it.
func Now(b *Book, node string) *work.NodeUse { return &b.work.slotOf(node).NodeUse }

// Change returns the same to be changed by the caller, at once.
func Change(b *Book, node string) *work.NodeUse {
	u := b.work.slotOf(node)
	if !u.dirty {
		u.dirty = true
		b.work.dirty = append(b.work.dirty, u)
	}
	return &u.NodeUse
}

// Touch notes that the row of a node has changed.
func Touch(b *Book, node string) { b.work.changed.Add(node) }

// Figures are those of a frozen book.
type Figures struct{ book *Book }

// FiguresOf returns what there is to read of a frozen book.
func FiguresOf(b *Book) Figures { return Figures{b} }

// Use is the part of a node that leases and claims take.
func (f Figures) Use(node string) work.NodeUse {
	if u := f.UseOf(node); u != nil {
		return *u
	}
	return work.NodeUse{}
}

// UseOf is the same; nil: the node has never had any. It is the same in every view until one of its leases or claims changes.
func (f Figures) UseOf(node string) *work.NodeUse {
	u, _ := f.book.use.Get(nodeUse{node: node})
	return u.use
}

// Uses iterates what UseOf returns, in the order of the nodes.
func (f Figures) Uses() iter.Seq2[string, *work.NodeUse] {
	return func(yield func(string, *work.NodeUse) bool) {
		f.book.use.All()(func(u nodeUse) bool { return yield(u.node, u.use) })
	}
}

// NodesChanged is a mark behind the nodes whose row or use has changed. So the nodes between the marks of two views are those
// that differ, beside some that do not.
func (f Figures) NodesChanged() changes.Mark[string] { return f.book.changed }

// CheckUse reports where the figures differ from a new count, which it uses up.
func (f Figures) CheckUse(want map[string]*work.NodeUse, report kernel.Report) {
	for node, use := range f.Uses() {
		w := want[node]
		if w == nil {
			w = &work.NodeUse{}
		}
		if *use != *w {
			report("the use of %s is %+v, computed again %+v", node, *use, *w)
		}
		delete(want, node)
	}
	if len(want) != 0 {
		report("%d nodes with leases have no use", len(want))
	}
}
