package outbox

import (
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// holdTime is how long a report that may wait is kept for what follows it. A short task has ended by then, and is told of
// in one message and one commit; of any other one the cluster learns that much later that it runs.
const holdTime = 15 * time.Millisecond

// Outbox is a Queue that many goroutines use.
type Outbox struct {
	wake chan struct{}

	mu    sync.Mutex
	queue *Queue
	held  bool // a poke is due when holdTime is over
}

// New numbers reports from first on.
func New(first uint64) *Outbox { return &Outbox{queue: NewQueue(first), wake: make(chan struct{}, 1)} }

// Wake has a token when there may be something to send.
func (o *Outbox) Wake() <-chan struct{} { return o.wake }

// Add appends reports. It does not block.
func (o *Outbox) Add(reports ...*Report) {
	if len(reports) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.queue.Add(time.Now(), reports...):
		o.poke()
	case !o.held:
		o.held = true
		time.AfterFunc(holdTime, o.release)
	}
}

// release lets what was held go.
func (o *Outbox) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = false
	o.poke()
}

func (o *Outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Drop forgets the unsent reports of a task, except how it ended.
func (o *Outbox) Drop(task *v1.TaskRef) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue.Drop(task)
}

// Take returns the next reports to send.
func (o *Outbox) Take() []*v1.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queue.Take()
}

// Rewind makes all reports unsent: a new session has begun.
func (o *Outbox) Rewind() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue.Rewind()
}

// Ack removes the reports up to a number and calls their Acked, in their order.
func (o *Outbox) Ack(seq uint64) {
	o.mu.Lock()
	done := o.queue.Ack(seq)
	o.mu.Unlock()
	for _, r := range done {
		if r.Acked != nil {
			r.Acked()
		}
	}
}

// Waiting is the number of reports that were not acknowledged.
func (o *Outbox) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queue.Len()
}
