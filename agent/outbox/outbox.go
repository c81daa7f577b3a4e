package outbox

import (
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// holdTime is how long a report with MayWait is held for the next report. Short tasks end within it, so their start and
// end take one message and one commit. The start of any other task is reported with this delay.
const holdTime = 15 * time.Millisecond

// Outbox is a Queue that many goroutines may use.
type Outbox struct {
	wake chan struct{}

	mu    sync.Mutex
	queue *Queue
	held  bool // fires when holdTime is over
}

// New makes an outbox that numbers reports from first on.
func New(first uint64) *Outbox { return &Outbox{queue: NewQueue(first), wake: make(chan struct{}, 1)} }

// Wake has a token when there may be reports to send.
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

// release stops holding reports.
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

// Drop removes the unsent reports of a task, except its end.
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

// Rewind marks all reports as unsent: a new session has begun.
func (o *Outbox) Rewind() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue.Rewind()
}

// Ack removes the reports up to a number and calls their Acked, in order.
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

// Waiting returns the number of unacknowledged reports.
func (o *Outbox) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queue.Len()
}
