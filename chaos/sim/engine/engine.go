// Package engine provides the world of a simulation: virtual time, events, chance, processes, and the links between
// them. All of it runs on one goroutine, from a seed.
//
// Time is a number, events are in a heap ordered by time and number, all random numbers come from one PCG, and nothing
// depends on the order of a map: the same seed is the same run, and its trace has the same hash.
package engine

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// Engine is one world. Times are nanoseconds since its beginning.
type Engine struct {
	// Rand is the only source of random numbers.
	Rand *rand.Rand
	// Trace records the events so far.
	Trace Trace
	// Weather configures what happens to messages.
	Weather Weather

	now     int64
	queue   queue
	steps   int
	stopped bool
	procs   []*Proc
	cut     [maxProcs * maxProcs]bool
}

// New returns a world without events.
func New(seed uint64) *Engine {
	return &Engine{Rand: rand.New(rand.NewPCG(seed, 0x6d696e64)), Trace: newTrace()}
}

// Now returns the time.
func (e *Engine) Now() int64 { return e.now }

// epoch is the time of the wall clocks at the beginning.
const epoch = 1_700_000_000 * int64(time.Second)

// Wall returns the time of a correct wall clock.
func (e *Engine) Wall() int64 { return epoch + e.now }

// Steps returns the number of events that have happened.
func (e *Engine) Steps() int { return e.steps }

// Run runs events until a time, or until Stop.
func (e *Engine) Run(until int64) {
	for !e.stopped {
		next, ok := e.queue.next(until)
		if !ok {
			e.now = until
			return
		}
		e.now = next.at
		e.steps++
		e.Trace.Fold(uint64(next.at), next.seq)
		next.do()
	}
}

// Stop ends Run after the present event.
func (e *Engine) Stop() { e.stopped = true }

// After schedules an event.
func (e *Engine) After(d int64, do func()) { e.queue.add(e.now+max(d, 0), do) }

// Within draws a number from a range, excluding its end.
func (e *Engine) Within(from, to int64) int64 {
	if to <= from {
		return from
	}
	return from + e.Rand.Int64N(to-from)
}

// About draws a duration that differs from d by at most a tenth.
func (e *Engine) About(d time.Duration) int64 { return e.Within(int64(d-d/10), int64(d+d/10)) }

// Chance returns true with a probability.
func (e *Engine) Chance(p float64) bool { return p > 0 && e.Rand.Float64() < p }

// Pick draws one of some values.
func Pick[T any](e *Engine, values ...T) T { return values[e.Rand.IntN(len(values))] }

// Note adds an event to the trace.
func (e *Engine) Note(what, a, b string, x, y uint64) { e.Trace.note(e.now, what, a, b, x, y) }

// event is a function to call at a time.
type event struct {
	at  int64
	seq uint64
	do  func()
}

// queue holds the future events, ordered by time, then number. It implements heap.Interface.
type queue struct {
	events []event
	seq    uint64
}

func (q *queue) Len() int { return len(q.events) }

func (q *queue) Less(i, j int) bool {
	a, b := &q.events[i], &q.events[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (q *queue) Swap(i, j int) { q.events[i], q.events[j] = q.events[j], q.events[i] }

func (q *queue) Push(e any) { q.events = append(q.events, e.(event)) }

func (q *queue) Pop() any {
	last := len(q.events) - 1
	e := q.events[last]
	q.events[last], q.events = event{}, q.events[:last]
	return e
}

func (q *queue) add(at int64, do func()) {
	q.seq++
	heap.Push(q, event{at, q.seq, do})
}

// next removes the first event, if it is not after until.
func (q *queue) next(until int64) (event, bool) {
	if len(q.events) == 0 || q.events[0].at > until {
		return event{}, false
	}
	return heap.Pop(q).(event), true
}
