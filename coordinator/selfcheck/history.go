package selfcheck

import (
	"sort"
	"sync"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
)

const (
	// recentMarks is the number of newest indices whose hashes are kept, sparseMarks the number of multiples of
	// sparseStep before them: under load replicas are further apart than the newest indices reach.
	recentMarks = 4096
	sparseMarks = 1024
	sparseStep  = 64
	// behind is how far back a comparison may be at any index; further back it must be at a multiple of sparseStep.
	behind = recentMarks / 2
)

// stateMark is the state's hash after all entries up to an index.
type stateMark struct{ index, hash uint64 }

// history keeps state hashes. Every replica records the same indices, those of the entries passed to the state machine,
// so that replicas have hashes in common.
type history struct {
	mu     sync.Mutex
	recent markRing
	sparse markRing
}

// observe is called after each entry.
func (h *history) observe(v *fsm.View, events []event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range events {
		if events[i].Topic == event.TopicState {
			// The state was replaced. The earlier hashes belong to the same log, but those in between are missing.
			h.recent.clear()
			h.sparse.clear()
		}
	}
	m := stateMark{v.Index(), v.Hash()}
	h.recent.add(m, recentMarks)
	if m.index%sparseStep == 0 {
		h.sparse.add(m, sparseMarks)
	}
}

// at returns the mark of an index, if it is remembered.
func (h *history) at(index uint64) (stateMark, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m, ok := h.recent.atMost(index); ok && m.index == index {
		return m, true
	}
	m, ok := h.sparse.atMost(index)
	return m, ok && m.index == index
}

// newest returns the last recorded index; 0 if there is none.
func (h *history) newest() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recent.last().index
}

// near returns a mark at or before an index that other replicas probably have, too.
func (h *history) near(index uint64) (stateMark, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m, ok := h.recent.atMost(index); ok && h.recent.last().index-m.index <= behind {
		return m, true
	}
	return h.sparse.atMost(index)
}

// markRing holds marks in the order of their indices. New ones replace the oldest.
type markRing struct {
	marks []stateMark
	next  int // index of the oldest once the ring is full
}

func (r *markRing) clear() { r.marks, r.next = r.marks[:0], 0 }

func (r *markRing) add(m stateMark, limit int) {
	switch last := r.last(); {
	case len(r.marks) > 0 && m.index == last.index:
		*r.place(len(r.marks) - 1) = m
	case len(r.marks) < limit:
		r.marks = append(r.marks, m)
	default:
		r.marks[r.next] = m
		r.next = (r.next + 1) % len(r.marks)
	}
}

// place returns the i-th mark from the oldest.
func (r *markRing) place(i int) *stateMark { return &r.marks[(r.next+i)%len(r.marks)] }

func (r *markRing) last() stateMark {
	if len(r.marks) == 0 {
		return stateMark{}
	}
	return *r.place(len(r.marks) - 1)
}

// atMost finds the newest mark that is not after index.
func (r *markRing) atMost(index uint64) (stateMark, bool) {
	after := sort.Search(len(r.marks), func(i int) bool { return r.place(i).index > index })
	if after == 0 {
		return stateMark{}, false
	}
	return *r.place(after - 1), true
}
