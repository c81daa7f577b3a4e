package events

import (
	"sync"

	"github.com/mindcoordinator/mind/api/cursor"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
)

// keepEvents is the number of events that a replica keeps for watchers that lag or reconnect. 64 Ki events are about 12
// MiB, and last a minute on a cluster at full load.
const keepEvents = 64 << 10

// ring holds the newest events that this replica has applied, oldest first.
type ring struct {
	mu   sync.RWMutex
	kept []pastEvent
	// keep is the size of kept; 0: keepEvents.
	keep uint64
	// next is the number of the next event; numbers start at 0 and are this replica's own.
	next uint64
	// The events up to (floor, floorPos) are gone, or were never seen here.
	floor    uint64
	floorPos int
	// changed is closed when there are new events; nil while nothing waits.
	changed chan struct{}
}

type pastEvent struct {
	event.Event
	time int64
}

// observe records the events of an entry. The applying goroutine calls it.
func (l *ring) observe(v *fsm.View, events []event.Event) {
	if len(events) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keep == 0 {
		l.keep = keepEvents
	}
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	for i := range events {
		if events[i].Topic == event.TopicState {
			// Events skipped by a snapshot were never seen here.
			l.kept, l.next, l.floor, l.floorPos = nil, 0, v.Index(), cursor.All
			continue
		}
		e := pastEvent{events[i], v.Now()}
		if uint64(len(l.kept)) < l.keep {
			l.kept = append(l.kept, e)
		} else {
			at := &l.kept[l.next%l.keep]
			l.floor, l.floorPos = at.Index, at.Pos
			*at = e
		}
		l.next++
	}
}

// oldest returns the position from which on all events are remembered.
func (l *ring) oldest() (index uint64, position int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.floor, l.floorPos
}

// after finds the number of the first event after (index, position). ok is false if some of the following events are gone.
func (l *ring) after(index uint64, position int) (number uint64, ok bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if index < l.floor || index == l.floor && position < l.floorPos {
		return 0, false
	}
	first := l.next - uint64(len(l.kept))
	low, high := first, l.next
	for low < high {
		middle := low + (high-low)/2
		e := &l.kept[middle%l.keep]
		if e.Index > index || e.Index == index && e.Pos > position {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low, true
}

// more returns a channel that is closed once there is an event with a higher number.
func (l *ring) more(number uint64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next != number {
		ready := make(chan struct{})
		close(ready)
		return ready
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// read copies events from number on into buf. ok is false if they are gone.
func (l *ring) read(number uint64, buf []pastEvent) (n int, ok bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if number > l.next || number < l.next-uint64(len(l.kept)) {
		return 0, false
	}
	for n < len(buf) && number < l.next {
		buf[n] = l.kept[number%l.keep]
		n, number = n+1, number+1
	}
	return n, true
}
