// Package changes lists what has changed from one view of a state to a later one, for readers that keep what they have derived
// from the first, and want to bring it up to the second without reading everything again.
package changes

import "iter"

const (
	perPage = 256
	// perChain is how many changes are kept together. A reader that keeps a view for long thereby keeps that many changes at most.
	perChain = 64 * perPage
)

// Log is written by one goroutine. Readers have marks in it.
type Log[T any] struct{ end Mark[T] }

// Mark is a place in a log: what came before it is in the view that has it. It may be read while the log is written.
type Mark[T any] struct {
	chain *chain
	page  *page[T]
	// count is how many changes of the chain come before the mark.
	count int
}

// chain names changes that follow each other.
type chain struct{ _ byte }

// page is written only behind the marks that anybody else has.
type page[T any] struct {
	changes [perPage]T
	next    *page[T]
}

// New returns an empty log.
func New[T any]() *Log[T] {
	l := &Log[T]{}
	l.cut()
	return l
}

// cut begins a new chain, so what is before it is garbage once no mark is in it.
func (l *Log[T]) cut() { l.end = Mark[T]{chain: &chain{}, page: &page[T]{}} }

// Add puts a change at the end.
func (l *Log[T]) Add(change T) {
	if l.end.count == perChain {
		l.cut()
	}
	e := &l.end
	e.page.changes[e.count%perPage] = change
	if e.count++; e.count%perPage == 0 {
		e.page.next = &page[T]{}
		e.page = e.page.next
	}
}

// End is the mark behind all changes up to now.
func (l *Log[T]) End() Mark[T] { return l.end }

// Between iterates the changes from one mark to another one, in order. False: they are not known, because too much has changed,
// because the marks are of two logs, or because the second one comes first.
func Between[T any](from, to Mark[T]) (iter.Seq[T], bool) {
	if from.chain == nil || from.chain != to.chain || from.count > to.count {
		return nil, false
	}
	return func(yield func(T) bool) {
		at := from.page
		for i := from.count; i < to.count; i++ {
			if !yield(at.changes[i%perPage]) {
				return
			}
			if (i+1)%perPage == 0 {
				at = at.next
			}
		}
	}, true
}
