package waiting

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// A job's place in its queue is how many waiting jobs come before it. To count them one by one takes longer the longer the
// queue is; so waiting jobs are counted in blocks, too: those of one queue and priority that were created by neighbouring entries.
// An array stands in the place of all of its elements that wait for their first placement.

// blockBits is how many bits of an id are within a block: the position in an entry, and the last bits of its index.
const blockBits = kernel.IDPositionBits + 6

// blockKey orders the blocks of a queue as its jobs are: priority first, then age.
type blockKey struct {
	queue string
	place uint64
}

func blockOf(queue string, priority uint8, id ident.Job) blockKey {
	return blockKey{queue, uint64(255-priority)<<56 | uint64(id.Submitted())>>blockBits}
}

func blockLess(a, b block) bool {
	return a.key.queue < b.key.queue || a.key.queue == b.key.queue && a.key.place < b.key.place
}

// block is a block of a view.
type block struct {
	key  blockKey
	jobs int
}

// blockSlot is a block while entries are applied.
type blockSlot struct {
	block
	dirty bool
}

// count counts a job that begins to wait (or stops).
func count(l *Lists, j *work.Job, by int) {
	w := l.work
	key := blockOf(j.Queue, j.Priority, j.ID)
	b, ok := w.blocks[key]
	if !ok {
		b = &blockSlot{block: block{key: key}}
		w.blocks[key] = b
	}
	if b.jobs += by; !b.dirty {
		b.dirty = true
		w.dirtyBlocks = append(w.dirtyBlocks, b)
	}
}

func flushBlocks(l *Lists) {
	w := l.work
	for _, b := range w.dirtyBlocks {
		b.dirty = false
		if b.jobs > 0 {
			l.blocks.Put(b.block)
			continue
		}
		delete(w.blocks, b.key)
		l.blocks.Delete(b.block)
	}
	w.dirtyBlocks = w.dirtyBlocks[:0]
}

// Find finds a job by its id.
type Find func(ident.Job) (*work.Job, bool)

// Places tells the places of many jobs of one queue. It is fast for jobs that are asked for in the order of the queue.
type Places struct {
	lists *Lists
	find  Find
	queue string
	// places and before are of each block, in order: its place, and how many jobs come before it.
	places []uint64
	before []int
	// last is the job that was asked for before, and ahead its answer.
	last  *work.Job
	ahead int
}

// PlacesIn begins to tell the places of the jobs of a queue, as of the last Flush.
func PlacesIn(l *Lists, queue string, find Find) *Places {
	p := &Places{lists: l, find: find, queue: queue}
	sum := 0
	l.blocksOf(queue, func(b block) bool {
		p.places, p.before = append(p.places, b.key.place), append(p.before, sum)
		sum += b.jobs
		return true
	})
	return p
}

func (l *Lists) blocksOf(queue string, yield func(block) bool) {
	l.blocks.AscendFrom(block{key: blockKey{queue: queue}}, func(b block) bool {
		return b.key.queue == queue && yield(b)
	})
}

// Ahead is Lists.AheadOf.
func (p *Places) Ahead(j *work.Job) int {
	place := blockOf(j.Queue, j.Priority, j.ID).place
	if p.last != nil && p.last.ID.Older(j.ID) && blockOf(p.last.Queue, p.last.Priority, p.last.ID).place == place {
		p.ahead += p.lists.between(j, p.last.ID, p.find)
		p.last = j
		return p.ahead
	}
	low, high := 0, len(p.places)
	for low < high {
		if mid := (low + high) / 2; p.places[mid] < place {
			low = mid + 1
		} else {
			high = mid
		}
	}
	p.ahead, p.last = 0, j
	switch {
	case low < len(p.places):
		p.ahead = p.before[low]
	case low > 0: // after all of them
		p.lists.blocksOf(p.queue, func(b block) bool {
			p.ahead += b.jobs
			return true
		})
	}
	p.ahead += p.lists.between(j, j.ID.Submitted()>>blockBits<<blockBits, p.find)
	return p.ahead
}

// AheadOf is how many waiting jobs of the same queue have a higher priority, or the same and are older, as of the last Flush.
// The scheduler offers the jobs of one user in this order; between users and tenants it goes by their shares, too.
func AheadOf(l *Lists, j *work.Job, find Find) int {
	place, n := blockOf(j.Queue, j.Priority, j.ID).place, 0
	l.blocksOf(j.Queue, func(b block) bool {
		if b.key.place >= place {
			return false
		}
		n += b.jobs
		return true
	})
	return n + l.between(j, j.ID.Submitted()>>blockBits<<blockBits, find) + elementsBefore(j, find)
}

// elementsBefore counts the elements of an array that wait for their first placement before one of them does.
func elementsBefore(j *work.Job, find Find) int {
	array, number, element := j.ID.Element()
	if !element {
		return 0
	}
	row, ok := find(array)
	if !ok || !row.Waiting() || !row.Array.Waiting.Has(number) {
		return 0
	}
	return row.Array.Waiting.Below(number) - row.Places() // between has counted all of them
}

// between counts the waiting jobs of the queue and priority of a job, from an id on and before that job.
func (l *Lists) between(j *work.Job, from ident.Job, find Find) int {
	n := 0
	if q, ok := l.queues.Get(queueNumber{name: j.Queue}); ok {
		place := placeIn(q.number, j.Priority)
		l.queued.AscendRange(queuedJob{place, from}, queuedJob{place, j.ID}, func(w queuedJob) bool {
			n += placesOf(w.id, find)
			return true
		})
	}
	return n
}

// placesOf is how many jobs wait in the place of a row.
func placesOf(id ident.Job, find Find) int {
	if !id.MayBeArray() {
		return 1
	}
	j, _ := find(id)
	return j.Places()
}
