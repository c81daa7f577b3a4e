package agent

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// maxBatch bounds the reports of one message.
const maxBatch = 512

// holdTime is how long a report that may wait is kept for what follows it. A short task has ended by then, and is told of
// in one message and one commit; of any other one the cluster learns that much later that it runs.
const holdTime = 15 * time.Millisecond

// maxCheckpoints bounds the unsent checkpoints of one task: no more are kept of a job anyway.
const maxCheckpoints = 1000

// outbox holds the reports that no coordinator has acknowledged yet, in the
// order in which things happened. It lives in memory, and is bounded: of
// launches, phases and progress the latest word is kept. All that it holds is on
// disk, too: starts and ends are in the shims' records, checkpoints and phases in
// the journals of the tasks, progress in what the programs wrote.
type outbox struct {
	mu    sync.Mutex
	items []*report // in the order of their numbers
	sent  int       // items[:sent] were sent in the present session
	seq   uint64
	held  bool // a poke is due when holdTime is over
	wake  chan struct{}
}

// report is one entry of the outbox.
type report struct {
	body *v1.Report
	// latest names what only the latest word on counts: an unsent report of the
	// same name is dropped.
	latest string
	// mayWait is set when the report is soon followed by one that tells more.
	mayWait bool
	acked   func()
}

// newOutbox numbers reports from first on.
func newOutbox(first uint64) *outbox {
	return &outbox{seq: first, wake: make(chan struct{}, 1)}
}

// add appends reports; acked, which may be nil, is called when the state holds
// the report or has refused it for good.
func (o *outbox) add(reports ...*report) {
	if len(reports) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range reports {
		if r.latest != "" {
			unsent := slices.DeleteFunc(o.items[o.sent:], func(old *report) bool {
				return old.latest == r.latest && sameTask(old.body.GetTask(), r.body.GetTask())
			})
			o.items = o.items[:o.sent+len(unsent)]
		}
		if r.body.GetCheckpoint() != nil {
			o.boundCheckpoints(r.body.GetTask())
		}
		o.seq++
		r.body.Seq = o.seq
		if r.body.Time == nil {
			r.body.Time = timestamppb.New(time.Now())
		}
		o.items = append(o.items, r)
	}
	switch {
	case slices.ContainsFunc(reports, func(r *report) bool { return !r.mayWait }):
		o.poke()
	case !o.held:
		o.held = true
		time.AfterFunc(holdTime, o.release)
	}
}

// boundCheckpoints makes room for one more: the oldest goes.
func (o *outbox) boundCheckpoints(task *v1.TaskRef) {
	n, oldest := 0, -1
	for i, r := range o.items[o.sent:] {
		if r.body.GetCheckpoint() != nil && sameTask(r.body.GetTask(), task) {
			if n++; oldest < 0 {
				oldest = o.sent + i
			}
		}
	}
	if n >= maxCheckpoints {
		o.items = slices.Delete(o.items, oldest, oldest+1)
	}
}

// release lets what was held go.
func (o *outbox) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = false
	o.poke()
}

func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func sameTask(a, b *v1.TaskRef) bool {
	return a.GetJobId() == b.GetJobId() && a.GetAttempt() == b.GetAttempt() && a.GetRank() == b.GetRank() && a.GetToken() == b.GetToken()
}

// drop forgets the unsent reports of a task, except how it ended.
func (o *outbox) drop(task *v1.TaskRef) {
	o.mu.Lock()
	defer o.mu.Unlock()
	unsent := slices.DeleteFunc(o.items[o.sent:], func(r *report) bool { return r.body.GetEnded() == nil && sameTask(r.body.GetTask(), task) })
	o.items = o.items[:o.sent+len(unsent)]
}

// take returns the next reports to send.
func (o *outbox) take() []*v1.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(o.items)-o.sent, maxBatch)
	batch := make([]*v1.Report, 0, n)
	for _, r := range o.items[o.sent : o.sent+n] {
		batch = append(batch, r.body)
	}
	o.sent += n
	return batch
}

// rewind makes all reports unsent: a new session has begun.
func (o *outbox) rewind() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = 0
}

// ack drops the reports up to a number.
func (o *outbox) ack(seq uint64) {
	o.mu.Lock()
	n := 0
	for n < o.sent && o.items[n].body.GetSeq() <= seq {
		n++
	}
	done := slices.Clone(o.items[:n])
	clear(o.items[:n])
	o.items = o.items[n:]
	o.sent -= n
	o.mu.Unlock()
	for _, r := range done {
		if r.acked != nil {
			r.acked()
		}
	}
}

// waiting is the number of reports that were not acknowledged.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.items)
}
