package tables

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// A job's place in its queue is how many waiting jobs come before it. To count them one by one takes longer the longer the
// queue is; so waiting jobs are counted in blocks, too: those of one queue and priority that were created by neighbouring entries.

// blockBits is how many bits of an id are within a block: the position in an entry, and the last bits of its index.
const blockBits = kernel.IDPositionBits + 6

// An array stands in the place of all of its elements that wait for their first placement.

// blockKey orders the blocks of a queue as its jobs are: priority first, then age.
type blockKey struct {
	queue string
	place uint64
}

func blockOf(queue string, priority uint8, id ident.Job) blockKey {
	return blockKey{queue, uint64(255-priority)<<56 | uint64(id.Submitted())>>blockBits}
}

func blockLess(a, b waitingBlock) bool {
	return a.key.queue < b.key.queue || a.key.queue == b.key.queue && a.key.place < b.key.place
}

// waitingBlock is a block of a view.
type waitingBlock struct {
	key  blockKey
	jobs int
}

// blockSlot is a block while entries are applied.
type blockSlot struct {
	waitingBlock
	dirty bool
}

// countWaiting counts a job that begins to wait (or stops).
func (s *State) countWaiting(j *work.Job, by int) {
	w := s.work
	key := blockOf(j.Queue, j.Priority, j.ID)
	b, ok := w.blocks[key]
	if !ok {
		b = &blockSlot{waitingBlock: waitingBlock{key: key}}
		w.blocks[key] = b
	}
	if b.jobs += by; !b.dirty {
		b.dirty = true
		w.dirtyBlocks = append(w.dirtyBlocks, b)
	}
}

func (s *State) flushBlocks() {
	w := s.work
	for _, b := range w.dirtyBlocks {
		b.dirty = false
		if b.jobs > 0 {
			s.jobs.blocks.Put(b.waitingBlock)
			continue
		}
		delete(w.blocks, b.key)
		s.jobs.blocks.Delete(b.waitingBlock)
	}
	w.dirtyBlocks = w.dirtyBlocks[:0]
}

// QueuePlaces tells the places of many jobs of one queue. It is fast for jobs that are asked for in the order of the queue.
type QueuePlaces struct {
	view  *View
	queue string
	// places and before are of each block, in order: its place, and how many jobs come before it.
	places []uint64
	before []int
	// last is the job that was asked for before, and ahead its answer.
	last  *work.Job
	ahead int
}

// Places begins to tell the places of the jobs of a queue.
func (v *View) Places(queue string) *QueuePlaces {
	p := &QueuePlaces{view: v, queue: queue}
	sum := 0
	v.blocks(queue, func(b waitingBlock) bool {
		p.places, p.before = append(p.places, b.key.place), append(p.before, sum)
		sum += b.jobs
		return true
	})
	return p
}

func (v *View) blocks(queue string, yield func(waitingBlock) bool) {
	v.jobs.blocks.AscendFrom(waitingBlock{key: blockKey{queue: queue}}, func(b waitingBlock) bool {
		return b.key.queue == queue && yield(b)
	})
}

// Ahead is View.Ahead.
func (p *QueuePlaces) Ahead(j *work.Job) int {
	place := blockOf(j.Queue, j.Priority, j.ID).place
	if p.last != nil && p.last.ID.Older(j.ID) && blockOf(p.last.Queue, p.last.Priority, p.last.ID).place == place {
		p.ahead += p.view.waitingBetween(j, p.last.ID)
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
		p.view.blocks(p.queue, func(b waitingBlock) bool {
			p.ahead += b.jobs
			return true
		})
	}
	p.ahead += p.view.waitingBetween(j, j.ID.Submitted()>>blockBits<<blockBits)
	return p.ahead
}

// Ahead is how many waiting jobs of the same queue have a higher priority, or the same and are older. The scheduler offers
// the jobs of one user in this order; between users and tenants it goes by their shares, too.
func (v *View) Ahead(j *work.Job) int {
	place, n := blockOf(j.Queue, j.Priority, j.ID).place, 0
	v.blocks(j.Queue, func(b waitingBlock) bool {
		if b.key.place >= place {
			return false
		}
		n += b.jobs
		return true
	})
	return n + v.waitingBetween(j, j.ID.Submitted()>>blockBits<<blockBits) + v.waitingBefore(j)
}

// waitingBefore counts the elements of an array that wait for their first placement before one of them does.
func (v *View) waitingBefore(j *work.Job) int {
	array, number, element := j.ID.Element()
	if !element {
		return 0
	}
	row, ok := v.Job(array)
	if !ok || !row.Waiting() || !row.Array.Waiting.Has(number) {
		return 0
	}
	return row.Array.Waiting.Below(number) - row.Places() // waitingBetween has counted all of them
}

// waitingBetween counts the waiting jobs of the queue and priority of a job, from an id on and before that job.
func (v *View) waitingBetween(j *work.Job, from ident.Job) int {
	n := 0
	if q, ok := v.jobs.queues.Get(queueNumber{name: j.Queue}); ok {
		place := waitingPlace(q.number, j.Priority)
		v.jobs.queued.AscendRange(queuedJob{place, from}, queuedJob{place, j.ID}, func(w queuedJob) bool {
			n += v.placesOf(w.id)
			return true
		})
	}
	return n
}

// placesOf is how many jobs wait in the place of a row.
func (v *View) placesOf(id ident.Job) int {
	if !id.MayBeArray() {
		return 1
	}
	j, _ := v.Job(id)
	return j.Places()
}
