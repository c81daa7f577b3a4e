package waiting

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// CheckWaiting reports what does not hold of the lists: jobs are all jobs, find finds one, and lane is that of a job while it
// waits.
func (l *Lists) CheckWaiting(jobs iter.Seq[*work.Job], find Find, lane func(*work.Job) work.LaneKey, report kernel.Report) {
	waits := 0
	for j := range jobs {
		if j.Waiting() {
			waits++
		}
	}
	if n := l.waiting.Len(); n != waits {
		report("the index of waiting has %d entries instead of %d", n, waits)
	}
	if n := l.queued.Len(); n != waits {
		report("the index of queued has %d entries instead of %d", n, waits)
	}
	l.checkClasses(find, lane, report)
	l.checkQueues(find, report)
	l.checkBlocks(jobs, report)
}

func (l *Lists) checkClasses(find Find, lane func(*work.Job) work.LaneKey, report kernel.Report) {
	numbers := map[uint32]work.LaneKey{}
	for n := range l.lanes.All() {
		numbers[n.number] = n.key
	}
	used, lanes := map[work.ClassKey]bool{}, map[work.LaneKey]bool{}
	for w := range l.waiting.All() {
		j, ok := find(w.id)
		key := numbers[uint32(w.place>>8)]
		if !ok || j != w.job || !j.Waiting() || lane(j) != key || uint8(w.place) != 255-j.Priority {
			report("%s is listed as waiting in lane %v", w.id, key)
		}
		used[key.Class], lanes[key] = true, true
	}
	if len(used) != l.classes.Len() || len(lanes) != l.lanes.Len() {
		report("%d classes and %d lanes, %d and %d of them with jobs", l.classes.Len(), l.lanes.Len(), len(used), len(lanes))
	}
	for key := range used { // order-free: which is missing is reported, in any order
		if !l.classes.Has(key) {
			report("jobs wait in class %v, which is not listed", key)
		}
	}
	for r := range l.reasons.Rows() {
		if !used[r.Class] {
			report("a reason for class %v, of which no job waits", r.Class)
		}
	}
}

func (l *Lists) checkQueues(find Find, report kernel.Report) {
	queues := map[uint32]string{}
	for q := range l.queues.All() {
		queues[q.number] = q.name
	}
	for q := range l.queued.All() {
		j, ok := find(q.id)
		if !ok || !j.Waiting() || queues[uint32(q.place>>8)] != j.Queue || uint8(q.place) != 255-j.Priority {
			report("%s is listed as queued in %q", q.id, queues[uint32(q.place>>8)])
		}
	}
}

// checkBlocks holds that blocks count right.
func (l *Lists) checkBlocks(jobs iter.Seq[*work.Job], report kernel.Report) {
	counted := map[blockKey]int{}
	for j := range jobs {
		if j.Waiting() {
			counted[blockOf(j.Queue, j.Priority, j.ID)] += j.Places()
		}
	}
	for b := range l.blocks.All() {
		if counted[b.key] != b.jobs {
			report("the block %v of waiting jobs has %d, counted again %d", b.key, b.jobs, counted[b.key])
		}
		delete(counted, b.key)
	}
	if len(counted) > 0 {
		report("%d blocks of waiting jobs are not counted", len(counted))
	}
}
